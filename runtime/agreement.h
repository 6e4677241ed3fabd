// What every rank of a run must have been told alike. Ranks that a launcher started each read their
// own arguments and files: unlike ones would hang, crash or train wrongly, so they are compared
// before the first step.
#pragma once

#include <string>
#include <vector>

#include "runtime/coordinator.h"
#include "runtime/launch.h"

namespace trireme::runtime {

// One thing that a rank was told, under the name by which a person knows it: {"--seed", "7"}.
struct Told {
  std::string name;
  std::string value;
};

// Called by every rank, with the same names in the same order. Where two ranks were told unlike
// things, every rank throws the same Error: the first such name, both values, both ranks with their
// hosts.
void require_alike(Coordinator& coordinator, const std::vector<Told>& told);

// Called in its place by a rank that cannot go on, so that the others throw `why` and its name
// instead of waiting for it. Never throws.
void refuse(Coordinator& coordinator, const std::string& why);
// The same of a rank that has not met the others yet; gives up when they do not come within ten
// seconds.
void refuse(const RankEnvironment& environment, const std::string& why);

}  // namespace trireme::runtime
