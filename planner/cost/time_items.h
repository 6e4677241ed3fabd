// The parts of a step's exposed time by name, in the order in which every report lists them; their
// names are the keys of breakdown_seconds.
#pragma once

#include <array>

#include "planner/cost/time.h"

namespace trireme::planner {

struct TimeItem {
  const char* name;
  double TimeItems::*part;  // seconds of a step
};

inline constexpr std::array<TimeItem, 10> kTimeItems = {
    {{"compute", &TimeItems::compute},
     {"tensor_parallel", &TimeItems::tensor_parallel},
     {"context_parallel", &TimeItems::context_parallel},
     {"expert_parallel", &TimeItems::expert_parallel},
     {"pipeline_bubble", &TimeItems::pipeline_bubble},
     {"pipeline_p2p", &TimeItems::pipeline_p2p},
     {"data_parallel", &TimeItems::data_parallel},
     {"optimizer", &TimeItems::optimizer},
     {"offload", &TimeItems::offload},
     {"other", &TimeItems::other}}};

}  // namespace trireme::planner
