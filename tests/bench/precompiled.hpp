#pragma once

// What benches include: the command line's one large header, and what the rooms' sources include.

#include <CLI/CLI.hpp>

#include "proto/precompiled.hpp"
