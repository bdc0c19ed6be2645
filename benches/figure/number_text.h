// Formats numbers for figures.

#pragma once

#include <string>

namespace kernbench::benches::figure {

// With exactly `decimals` digits after the point and commas: "1,250", "0.50".
std::string fixed_text(double value, int decimals);

// Three significant digits, more only before the point: "0.0125", "17.0", "366", "1,250".
std::string short_text(double value);

// At most four significant digits, more only before the point: "0.5", "51.2", "819.2", "1,024".
std::string rounded_text(double value);

// The shortest text that is exact to six digits: "0.5", "20", "10,000".  From 10^6 on and below
// 10^-4, at most three digits and a power of ten: "10⁷", "2.5×10⁶".
std::string plain_text(double value);

// Counts in powers of 1024: "8", "1 Ki", "48 Ki", "1.5 Mi".
std::string binary_text(double value);

// "64 B", "96 KiB", "1.5 MiB".
std::string bytes_text(double value);

}  // namespace kernbench::benches::figure
