// Formats numbers for figures.  REQUIRES: none is negative

#pragma once

#include <string>

namespace kernbench::benches::figure {

// At most four significant digits, more only before the point: "0.5", "51.2", "819.2", "1,024".
std::string rounded_text(double value);

// Counts in powers of 1024: "64 B", "96 KiB", "1.5 MiB".
std::string bytes_text(double value);

}  // namespace kernbench::benches::figure
