"""Defects that copies of the input show."""

from __future__ import annotations

from mutants.mutant import ALL, CHECKING, Mutant

# fmt: off
MUTANTS = [
    # gather_rows.cu
    Mutant("rows picked out before they are there", "gather_rows.cu", "columns backwards, copied", ALL,
           "run.load<EVICTION>(from);\n    [-__syncthreads();-]"),
    Mutant("rows in the opposite order", "gather_rows.cu", "columns backwards, copied", ALL,
           "(number + i - row * INNER) * [-ROW_STEP-]{+-ROW_STEP+};"),
    Mutant("last word of a copy stored whole", "gather_rows.cu", "few columns with gaps, copied", ALL,
           "if (number + OF_WORD <= count{+ + 1+}) {"),
    Mutant("tile of rows that ends late", "gather_rows.cu", "few columns with gaps, copied", CHECKING,
           "up_to_highest(rows, PITCH) + up_to_highest(INNER, ROW_STEP) + [-1-]{+9+});"),
    # gather_tiles.cu
    Mutant("tile of a copy read before it is whole", "gather_tiles.cu", "halves copied in whole tiles", ALL,
           "load<WHOLE>(part, columns); });\n        [-__syncthreads();-]"),
    Mutant("one row of a copy too many", "gather_tiles.cu", "elements copied into whole vectors", ALL,
           "} else if (part.row <{+=+} height && part.column < width) {"),
    Mutant("columns that are not there", "gather_tiles.cu", "elements copied in order", ALL,
           "part<HIGH>(part.row, height - g.height, [-j < width ? height : 0-]{+height+});"),
    # gather_boxes.cu
    Mutant("box read before it is whole", "gather_boxes.cu", "boxes", ALL,
           "load(staged, input, g, left);\n    [-__syncthreads();-]"),
    Mutant("one index of a box too many", "gather_boxes.cu", "boxes", CHECKING,
           "number[axis] * unit(axis) <{+=+} left[axis];"),
    Mutant("index that is not carried on", "gather_boxes.cu", "boxes", ALL,
           "(by > 0 || carry) && after >[-=-] count;"),
    Mutant("elements stored that are not there", "gather_boxes.cu", "boxes of a long axis", ALL,
           "[-if (!walk.exists(left)) continue;-]"),
    Mutant("one place of a box too many", "gather_boxes.cu", "boxes", ALL,
           "bool found = line <{+=+} LINES;"),
]
# fmt: on
