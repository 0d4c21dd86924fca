#pragma once

// What most tests include: Catch2, which is one large header, and what the rooms' sources include.

#include "proto/precompiled.hpp"
#include "tests/support/catch.hpp"
