// The memory that a launch may touch, and bounds.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <unordered_map>

#include "failure.h"
#include "shadow.h"

namespace cuda_on_cpu::checker {
namespace {

std::vector<Region> arrays;
std::unordered_map<const Block*, std::vector<Region>> shared;
Region* last_found;
const char *module_begin, *module_end;  // code and constants of the kernel
std::vector<Where> sites;

Cell* new_cells(size_t count) {
    void* memory = mmap(nullptr, count * sizeof(Cell) + 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for the checks of %zu bytes", count);
    return static_cast<Cell*>(memory);
}

void drop_cells(const Region& region) { munmap(region.cells, region.size * sizeof(Cell) + 1); }

int measure_module(dl_phdr_info* info, size_t, void* base) {
    if (info->dlpi_addr != reinterpret_cast<uintptr_t>(base)) return 0;
    uintptr_t end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type == PT_LOAD) end = std::max<uintptr_t>(end, header.p_vaddr + header.p_memsz);
    }
    module_begin = static_cast<const char*>(base);
    module_end = module_begin + end;
    return 1;
}

void find_module() {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(execution.request.kernel->call), &info);
    dl_iterate_phdr(measure_module, info.dli_fbase);
}

ptrdiff_t distance(const Region& region, const char* address) {
    if (address < region.first) return region.first - address;
    return std::max<ptrdiff_t>(address - (region.first + region.size) + 1, 0);
}

[[noreturn]] void fail_outside(const char* address, size_t size, const char* doing, Place place) {
    constexpr ptrdiff_t NEAR = 1 << 20;
    const Region* nearest = nullptr;
    const auto compare = [&](const std::vector<Region>& regions) {
        for (const Region& region : regions) {
            if (distance(region, address) > NEAR) continue;
            if (!nearest || distance(region, address) < distance(*nearest, address)) nearest = &region;
        }
    };
    compare(arrays);
    for (const auto& [block, regions] : shared) compare(regions);
    const std::string at = place.describe();
    if (!nearest) {
        fail("out of bounds: a %s of %zu bytes at %s, %p, near no array", doing, size, at.c_str(),
             static_cast<const void*>(address));
    }
    fail("out of bounds: a %s of %zu bytes at %s, from byte %td of %s, which has %zu", doing, size, at.c_str(),
         address - nearest->first, nearest->name, nearest->size);
}

Region* find_in(std::vector<Region>& regions, const char* address) {
    const auto found = std::ranges::find_if(regions, [&](const Region& region) { return region.holds(address); });
    return found == regions.end() ? nullptr : last_found = &*found;
}

Region* find_in_all(const Thread& thread, const char* address) {
    if (last_found && last_found->holds(address)) return last_found;
    if (Region* region = find_in(arrays, address)) return region;
    if (Region* region = find_in(shared[thread.block], address)) return region;
    for (auto& [block, regions] : shared) {
        if (Region* region = find_in(regions, address)) return region;
    }
    return nullptr;
}

void demand_shared_of_cluster(const Thread& thread, const Region& region, Place place) {
    if (!region.owner || region.owner == thread.block) return;
    if (region.owner->cluster != thread.block->cluster) {
        fail("out of bounds: %s of a block outside the cluster is touched at %s", region.name,
             place.describe().c_str());
    }
    if (!region.owner->running) {
        fail("%s is touched at %s after its block has ended", region.name, place.describe().c_str());
    }
}

}  // namespace

Place Place::of_code(const void* instruction) {
    Place place;
    place.bits_ = static_cast<uint32_t>(static_cast<const char*>(instruction) - module_begin);
    return place;
}

Place Place::of_site(Where where) {
    const auto found = std::ranges::find_if(
        sites, [&](const Where& site) { return site.line() == where.line() && site.file_name() == where.file_name(); });
    const auto number = static_cast<uint32_t>(found - sites.begin());
    if (found == sites.end()) sites.push_back(where);
    Place place;
    place.bits_ = number | SITE;
    return place;
}

std::string Place::describe() const {
    const uint32_t number = bits_ & ~SITE;
    if (bits_ & SITE) return cuda_on_cpu::describe(sites[number]);
    return describe_code(module_begin + number);
}

void open_regions() {
    const Request& request = execution.request;
    find_module();
    sites.clear();
    last_found = nullptr;
    for (const Array* array = request.arrays; array < request.arrays + request.array_count; array++) {
        arrays.push_back({array->first, array->size, array->name, array->written, nullptr, new_cells(array->size)});
    }
    for (const Block* block : execution.blocks) {
        for (const SharedVariable* variable = request.shared; variable < request.shared + request.shared_count;
             variable++) {
            shared[block].push_back({block->shared + variable->place, variable->size, variable->name, nullptr, block,
                                     new_cells(variable->size)});
        }
    }
}

void close_regions() {
    for (const Region& region : arrays) drop_cells(region);
    for (const auto& [block, regions] : shared) {
        for (const Region& region : regions) drop_cells(region);
    }
    arrays.clear();
    shared.clear();
}

void reset_shared(Block& block) {
    for (const Region& region : shared[&block])
        std::memset(static_cast<void*>(region.cells), 0, region.size * sizeof(Cell));
}

Region* find_region(const Thread& thread, char* address, size_t size, size_t alignment, const char* doing,
                    Place place) {
    Region* region = find_in_all(thread, address);
    if (!region && address >= module_begin && address + size <= module_end) return nullptr;
    if (!region || address + size > region->first + region->size) fail_outside(address, size, doing, place);
    if (reinterpret_cast<uintptr_t>(address) % alignment) {
        fail("misaligned: a %s of %zu bytes at %s, byte %td of %s", doing, size, place.describe().c_str(),
             address - region->first, region->name);
    }
    demand_shared_of_cluster(thread, *region, place);
    return region;
}

}  // namespace cuda_on_cpu::checker
