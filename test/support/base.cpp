// Carries the precompiled header of the tests; holds no code.
