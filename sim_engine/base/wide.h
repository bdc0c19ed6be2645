// 128-bit integers: a product of two 64-bit quantities, as bytes * 10^12, without overflow.

#pragma once

namespace kernbench {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

}  // namespace kernbench
