// How much longer work takes than the GPU needs because the host issues it: one law for the closed
// form and for the times of a program's ops.
#pragma once

#include "planner/plan/framework.h"

namespace trireme::planner {

// Seconds of forward and of backward.
struct PassPair {
  double forward = 0, backward = 0;
};
using HostWaits = PassPair;

// Of a rank that computes and communicates for `gpu` seconds what takes `host` to issue. Kernels
// queue up behind the GPU over a whole pass, so a head that keeps the GPU busy lets the host run
// ahead into the layers behind it. A framework that synchronises with its exchanges ends the queue
// after each pass; else, and without a pipeline, forward and backward are one. A host that waits
// for every kernel hides nothing.
HostWaits host_waits(const PassPair& gpu, const PassPair& host, bool pipelined,
                     const Framework& framework);

}  // namespace trireme::planner
