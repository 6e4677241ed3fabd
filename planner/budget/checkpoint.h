// A checkpoint: how large, how long training waits for it, when it is safe, how long reading takes.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

struct Storage {
  double write_gbytes_per_second = 0;  // of all nodes together; 0 = kNodeGbytes of each
  double read_gbytes_per_second = 0;   // 0 = as written
  bool asynchronous = true;            // training waits for the copy to host memory only
};
// Gigabytes a second of one node to shared storage: BLOOM wrote 1.2 (2.3 TB in 40 s, 48 nodes), 63
// nodes of B200 0.63.
inline constexpr double kNodeGbytes = 1.0;

struct Checkpoint {
  double bytes = 0;
  double save_seconds = 0;     // that training waits
  double durable_seconds = 0;  // until it is written
  double load_seconds = 0;
};
// Weights in the compute type, main copies and moments; of adapters, theirs alone.
Checkpoint checkpoint_of(const Job& job, const Plan& plan, const Storage& storage);

}  // namespace trireme::planner
