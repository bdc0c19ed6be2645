// Declares std::filesystem::path.  Code that holds a path by value includes <filesystem>, which
// costs as much to compile as all other standard headers of a typical file.

#pragma once

#if __has_include(<bits/fs_fwd.h>)
#include <bits/fs_fwd.h>  // IWYU pragma: export
#else
#include <filesystem>  // IWYU pragma: export
#endif
