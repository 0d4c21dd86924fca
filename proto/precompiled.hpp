#pragma once

// common/precompiled.hpp, and the messages that most sources which use the schemas include: a net,
// a solver and a job.

#include <google/protobuf/message.h>

#include "common/precompiled.hpp"
#include "proto/job.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
