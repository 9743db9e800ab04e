#include "failure.h"

#include <dlfcn.h>
#include <sys/time.h>
#include <ucontext.h>

#include <csignal>
#include <cstdarg>
#include <cstring>
#include <set>

#include "scheduler.h"

namespace cuda_on_cpu {
namespace {

std::string message;
sigjmp_buf way_out;
uint32_t time_limit;

std::string format_list(const char* pattern, va_list list) {
    va_list again;
    va_copy(again, list);
    std::string text(vsnprintf(nullptr, 0, pattern, again), '\0');
    va_end(again);
    vsnprintf(text.data(), text.size() + 1, pattern, list);
    return text;
}

[[noreturn]] void break_off(std::string text) {
    message = std::move(text);
    if (const Thread* thread = running()) {
        message += format("\n    in %s, after its last synchronisation: %s at %s", describe(*thread).c_str(),
                          thread->doing, describe(thread->at).c_str());
    }
    siglongjmp(way_out, 1);
}

const Array* array_round(const char* address) {
    constexpr ptrdiff_t NEAR = 1 << 16;
    const Request& request = execution.request;
    for (const Array* array = request.arrays; array < request.arrays + request.array_count; array++) {
        if (address >= array->first - NEAR && address < array->first + array->size + NEAR) return array;
    }
    return nullptr;
}

[[noreturn]] void fail_at_address(const siginfo_t& info, const std::string& code) {
    const char* address = static_cast<const char*>(info.si_addr);
    if (is_stack_guard(address)) fail("stack overflow at %s", code.c_str());
    if (info.si_code == SI_KERNEL) {  // the processor does not say which
        fail("misaligned access of 16 bytes, or a wild pointer, at %s", code.c_str());
    }
    if (const Array* array = array_round(address)) {
        fail("illegal address at %s: byte %td of %s, which has %zu", code.c_str(), address - array->first, array->name,
             array->size);
    }
    fail("illegal address at %s: %p, in no array of the launch", code.c_str(), static_cast<const void*>(address));
}

void on_signal(int signal, siginfo_t* info, void* context) {
    if (!current) {  // not a kernel's fault
        std::signal(signal, SIG_DFL);
        raise(signal);
        return;
    }
    const auto counter = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    const std::string code = describe_code(reinterpret_cast<const void*>(counter + 1));
    if (signal == SIGVTALRM) fail("no end after %u s of computing; now at %s", time_limit, code.c_str());
    if (signal == SIGFPE) fail("integer division by zero, or overflow, at %s", code.c_str());
    fail_at_address(*info, code);
}

// Signals and the clock, set for a launch and put back after it.
class SignalGuard {
  public:
    explicit SignalGuard(uint32_t timeout_s) {
        static char stack[1 << 16];  // a thread's own may be what overflowed
        const stack_t alternate{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
        sigaltstack(&alternate, &old_stack_);
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < COUNT; i++) sigaction(SIGNALS[i], &action, &old_action_[i]);
        itimerval limit{};
        limit.it_value.tv_sec = time_limit = timeout_s;
        setitimer(ITIMER_VIRTUAL, &limit, &old_timer_);
    }
    ~SignalGuard() {
        setitimer(ITIMER_VIRTUAL, &old_timer_, nullptr);
        for (int i = 0; i < COUNT; i++) sigaction(SIGNALS[i], &old_action_[i], nullptr);
        sigaltstack(&old_stack_, nullptr);
    }

  private:
    static constexpr int COUNT = 4;
    static constexpr int SIGNALS[COUNT] = {SIGSEGV, SIGBUS, SIGFPE, SIGVTALRM};
    stack_t old_stack_{};
    struct sigaction old_action_[COUNT]{};
    itimerval old_timer_{};
};

}  // namespace

std::string format(const char* pattern, ...) {
    va_list list;
    va_start(list, pattern);
    std::string text = format_list(pattern, list);
    va_end(list);
    return text;
}

std::string describe(const Where& where) {
    const char* slash = strrchr(where.file_name(), '/');
    return where.line() ? format("%s:%u", slash ? slash + 1 : where.file_name(), where.line()) : "its start";
}

std::string describe(const Thread& thread) {
    const uint3 b = thread.block_index, t = thread.thread_index;
    return format("block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
}

std::string describe_code(const void* instruction) {
    Dl_info info{};
    if (!dladdr(instruction, &info)) return "an unknown place";
    const auto offset = static_cast<const char*>(instruction) - static_cast<const char*>(info.dli_fbase);
    return format("<code %s %td>", info.dli_fname, offset);
}

void fail(const char* pattern, ...) {
    va_list list;
    va_start(list, pattern);
    std::string text = format_list(pattern, list);
    va_end(list);
    break_off(std::move(text));
}

void fail_stuck(const char* title) {
    constexpr size_t MOST = 12;
    std::set<std::string> places;
    for (const Block* block : execution.blocks) {
        if (!block->running) continue;
        for (const Thread& thread : block->threads) {
            if (!thread.fiber || places.size() >= MOST) continue;
            places.insert(format("\n    block (%u,%u,%u): in %s at %s", block->index.x, block->index.y, block->index.z,
                                 thread.doing, describe(thread.at).c_str()));
        }
    }
    std::string text = title;
    for (const std::string& place : places) text += place;
    break_off(std::move(text));
}

bool run_guarded(void (*body)(), uint32_t timeout_s) {
    const SignalGuard guard(timeout_s);
    if (sigsetjmp(way_out, 1)) return false;
    body();
    return true;
}

const char* failure_message() { return message.c_str(); }

}  // namespace cuda_on_cpu
