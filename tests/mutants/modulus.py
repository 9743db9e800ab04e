"""Defects that the truncated modulus shows."""

from __future__ import annotations

from mutants.mutant import ALL, CHECKING, NOT_IN_ORDER, Mutant

# fmt: off
MUTANTS = [
    # modulus_elements.cu
    Mutant("one element too many computed", "modulus_elements.cu", "modulus of every second",
           ("in order", "random", "checking"),
           "if (first + k * BLOCK <{+=+} g.size) store_element"),
    # modulus_packs.cu
    Mutant("last pack rounded up", "modulus_packs.cu", "modulus in packs", CHECKING,
           "first + PACK [-<=-]{+- PACK <+} g.length"),
    Mutant("packs that are not whole stored whole", "modulus_packs.cu", "modulus of shifted packs", ALL,
           "if ([-!-]CUT_WHEN_STORED ||"),
    Mutant("rows that others store loaded", "modulus_packs.cu", "modulus of shifted packs in place", CHECKING,
           "CUT_WHEN_STORED[- && output != dividend && output != divisor-];"),
    Mutant("thread numbers in eight bits", "modulus_packs.cu", "modulus of many blocks", ALL,
           "(thread - group * g.packs.size) * PACK{+ % 2048+} - lead_of"),
    Mutant("ends of a row of divisors in words", "modulus_packs.cu", "modulus of a row of shifted halves", CHECKING,
           "return [-__builtin_expect(is_inside, true) ?-] y.whole<PACK>(first)"
           "[- : part_of_divisor<PACK>(y, first, g.length)-];"),
    Mutant("last divisor of a row left out", "modulus_packs.cu", "modulus of a row of shifted halves", ALL,
           "part_of_divisor<PACK>(y, first, g.length{+ - 1+});"),
    Mutant("packs that begin anywhere", "modulus_packs.cu", "modulus of shifted packs in place", CHECKING,
           "% (PACK * sizeof(Output)) / sizeof(Output){+ * 0+});"),
    Mutant("one row too many", "modulus_packs.cu", "modulus of a row", ALL,
           "i <{+=+} rows; i++) store_pack"),
    Mutant("rows loaded that are not there", "modulus_packs.cu", "modulus of a row", CHECKING,
           "if (rows >= ROWS{+ - 2+})"),
    Mutant("rows one apart", "modulus_packs.cu", "modulus of a row", ALL,
           "g.rows - at.last[- * ROWS-] : 1;"),
    # modulus_runs.cu
    Mutant("divisor that is not there", "modulus_runs.cu", "modulus of a run of short rows in place", CHECKING,
           "if (first + j < g.size{+ + PACK+}) y ="),
    Mutant("row that begins an element late", "modulus_runs.cu", "modulus of a run of short rows", ALL,
           "const bool is_last = [-++column-]{+column+++} == g.row.size;"),
    Mutant("rows that are all divided by the first", "modulus_runs.cu", "modulus of a run of short rows in place", ALL,
           "back = [-g.divisor_row-]{+0+} - g.row.size"),
    Mutant("pack stored whole that is not", "modulus_runs.cu", "modulus of a run of short rows", CHECKING,
           "const bool is_whole = first + PACK <= g.size{+ + PACK+};"),
    # modulus_tiles.cu
    Mutant("tile read before it is whole", "modulus_tiles.cu", "modulus of transposed numbers", NOT_IN_ORDER,
           "[-__syncthreads();-]\n#pragma unroll 1"),
    Mutant("whole tile read before it is whole", "modulus_tiles.cu", "modulus of whole tiles", NOT_IN_ORDER,
           "[-__syncthreads();-]\n#pragma unroll 1"),
    Mutant("one row of a tile too many", "modulus_tiles.cu", "modulus of transposed numbers", ALL,
           "else if (i <{+=+} g.height) store_part"),
    # layout.cuh
    Mutant("quotient of a count too large", "layout.cuh", "modulus of a short row", ALL,
           "static_cast<unsigned>(magic)) >> [-shift-]{+(shift - 1)+})"),
    # modulus.cuh
    Mutant("words loaded from before an array", "modulus.cuh", "modulus of shifted packs", CHECKING,
           "offset >= begin[- + 4-] && offset <= end - bytes[- - 4-];"),
    Mutant("one number along all axes", "modulus.cuh", "modulus of a short row", ALL,
           "[-number = outer;-]"),
    # modulus_remainder.cuh
    Mutant("both halves of a word by the first divisor", "modulus_remainder.cuh", "modulus shifted within words", ALL,
           "if constexpr ([-!SAME-]{+false+}) high ="),
    Mutant("remainders below zero", "modulus_remainder.cuh", "modulus of whole packs", ALL,
           "return remainder < 0 ? remainder [-+ y-] : remainder;"),
    Mutant("long division only where all need it", "modulus_remainder.cuh", "huge quotients", ALL,
           "enough [-&=-]{+|=+} divisor"),
    Mutant("quotient of 32 bits too large", "modulus_remainder.cuh", "modulus in 32 bits", ALL,
           "bits_as_float(0x4f[-7ffffa-]{+800040+}u)"),
    Mutant("quotient of 64 bits in one step", "modulus_remainder.cuh", "modulus in 64 bits", ALL,
           "[-rest -= __double2uint_rz(__ull2double_rn(rest) * by) * y;-]"),
    Mutant("steps beyond the digits of a number", "modulus_remainder.cuh", "huge quotients on an old GPU", ALL,
           "DIGITS = 24, BIAS = 127, STEP = [-21-]{+24+};"),
    Mutant("subnormals taken for normal", "modulus_remainder.cuh", "huge quotients in double", ALL,
           "return x < y ? x : divide_long<double, [-true-]{+false+}>(x, y);"),
    Mutant("long division without its last step", "modulus_remainder.cuh", "huge quotients", ALL,
           "[-rest = step(rest * power_of_two<Real>(bits), divisor.significand, by);-]"),
    Mutant("reciprocal of bytes without its correction", "modulus_remainder.cuh", "modulus in packs", ALL,
           "by = [-halves_fma(guess, halves_fma(error, error, error), guess)-]{+guess+};"),
    # packs.cuh
    Mutant("last pack without an end", "packs.cuh", "modulus in packs", CHECKING,
           "if (0 <= first + i[- && first + i < length-])"),
    Mutant("first pack of a row before it", "packs.cuh", "modulus of shifted packs in place", CHECKING,
           "if ([-0 <= first + i && -]first + i < length)"),
    Mutant("others of every two bytes", "packs.cuh", "modulus of every second byte", ALL,
           "sizeof(T) == 1 ? 0x[-6420-]{+7531+} : 0x5410"),
    # runs.cuh
    Mutant("words shifted by a byte too little", "runs.cuh", "modulus shifted within words", ALL,
           "loaded[i + 1], within * [-8-]{+4+});\n    return result.values;"),
    Mutant("last word not loaded", "runs.cuh", "modulus shifted within words", ALL,
           "word[within [-==-]{+>=+} 0 ? COUNT - 1 : COUNT];"),
    # turned_tiles.cuh
    Mutant("tiles taken for whole", "turned_tiles.cuh", "modulus of transposed numbers", ALL,
           "return first >= margin[- && first + count + margin <= length-];"),
    Mutant("two words of a tile in one place", "turned_tiles.cuh", "modulus of whole tiles", ALL,
           "number [-^-]{+|+} row / HIGH % 8 * 4"),
    Mutant("bytes turned into the wrong rows", "turned_tiles.cuh", "modulus of whole tiles of bytes", ALL,
           "row % 4 < 2 ? 0x5140 : 0x[-7362-]{+5140+}"),
    Mutant("halves turned into the wrong rows", "turned_tiles.cuh", "modulus of transposed halves", ALL,
           "row % 2 ? 0x[-7632-]{+5410+} : 0x5410);\n        } else {"),
]
# fmt: on
