// The sums of warpgroup products as operands of inline assembly: where they stand in its text,
// counted from %0, and the variables sums[i], sums[i + 1], ... that they are.
#pragma once

#define GPTQB_PLACES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define GPTQB_PLACES_16 \
  GPTQB_PLACES_8        \
  ", "                  \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define GPTQB_PLACES_32                      \
  GPTQB_PLACES_16                            \
  ", "                                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define GPTQB_PLACES_64                      \
  GPTQB_PLACES_32                            \
  ", "                                       \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define GPTQB_PLACES_128                             \
  GPTQB_PLACES_64                                    \
  ", "                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, "         \
  "%72, %73, %74, %75, %76, %77, %78, %79, "         \
  "%80, %81, %82, %83, %84, %85, %86, %87, "         \
  "%88, %89, %90, %91, %92, %93, %94, %95, "         \
  "%96, %97, %98, %99, %100, %101, %102, %103, "     \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"

#define GPTQB_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define GPTQB_SUMS_8(i) GPTQB_SUMS_4(i), GPTQB_SUMS_4((i) + 4)
#define GPTQB_SUMS_16(i) GPTQB_SUMS_8(i), GPTQB_SUMS_8((i) + 8)
#define GPTQB_SUMS_32(i) GPTQB_SUMS_16(i), GPTQB_SUMS_16((i) + 16)
#define GPTQB_SUMS_64(i) GPTQB_SUMS_32(i), GPTQB_SUMS_32((i) + 32)
#define GPTQB_SUMS_128(i) GPTQB_SUMS_64(i), GPTQB_SUMS_64((i) + 64)
