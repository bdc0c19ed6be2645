// Carries the precompiled header and Catch2's main; holds no tests of its own.
