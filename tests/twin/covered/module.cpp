// A module is made of sources; all of this one's are in the library that it takes whole.
#include "worker/engine/cuda/module.hpp"
