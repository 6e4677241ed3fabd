#include <algorithm>
#include <map>
#include <numeric>

#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

// Devices that belong together, by union-find.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    const std::size_t ra = root(a);
    const std::size_t rb = root(b);
    parent_[std::max(ra, rb)] = std::min(ra, rb);
  }

 private:
  std::vector<std::size_t> parent_;
};

Sets sets_within(const DevicePaths& devices, Path widest) {
  const std::size_t count = devices.names.size();
  Sets sets(count);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      if (a != b && devices.paths[a][b] && *devices.paths[a][b] <= widest) {
        sets.join(a, b);
      }
    }
  }
  return sets;
}

// Devices of one NUMA node share a socket, unless some cell between the two sets says SYS; then one
// of the two is not true.
void join_by_memory(const DevicePaths& devices, Sets& sockets, std::vector<Doubt>& doubts) {
  const std::size_t count = devices.names.size();
  const auto apart = [&](std::size_t a, std::size_t b) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < count; ++j) {
        if (sockets.root(i) == sockets.root(a) && sockets.root(j) == sockets.root(b) &&
            devices.paths[i][j] == Path::kSystem) {
          return true;
        }
      }
    }
    return false;
  };
  std::vector<std::pair<std::size_t, std::size_t>> strangers;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      const bool same = !devices.memory[a].empty() && devices.memory[a] == devices.memory[b];
      if (!same || sockets.root(a) == sockets.root(b)) {
        continue;
      }
      if (!apart(a, b)) {
        sockets.join(a, b);
      } else if (devices.paths[a][b] == Path::kSystem) {
        strangers.emplace_back(a, b);
      }
    }
  }
  if (!strangers.empty()) {
    const auto [a, b] = strangers.front();
    doubts.push_back(
        {devices.names[b],
         "is SYS away from " + devices.names[a] + ", yet on the same NUMA node" +
             (strangers.size() > 1
                  ? "; so are " + std::to_string(strangers.size() - 1) + " more pairs"
                  : ""),
         "look at /sys/bus/pci/devices/*/numa_node and the BIOS's settings of NUMA: processes "
         "bound by it run on the wrong socket"});
  }
}

// A tree of switches cannot be nearer from A to B and from B to C than from A to C.
void remark_contradictions(const DevicePaths& devices, const std::vector<Place>& places,
                           std::vector<std::string>& remarks) {
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t a = 0; a < places.size(); ++a) {
    for (std::size_t b = a + 1; b < places.size(); ++b) {
      const Path meant = path_between(places[a], places[b]);
      if (devices.paths[a][b] && *devices.paths[a][b] != meant) {
        ++wrong;
        if (first.empty()) {
          first = devices.names[a] + " to " + devices.names[b] + " is " +
                  path_name(*devices.paths[a][b]) + " in the file, " + path_name(meant) +
                  " by the other cells";
        }
      }
    }
  }
  if (wrong > 0) {
    remarks.push_back("the matrix is not one of a tree of switches: " + first +
                      (wrong > 1 ? ", and " + std::to_string(wrong - 1) + " more" : ""));
  }
}

}  // namespace

std::vector<Place> place_devices(const DevicePaths& devices, std::vector<std::string>& remarks,
                                 std::vector<Doubt>& doubts) {
  const std::size_t count = devices.names.size();
  Sets leaves = sets_within(devices, Path::kSwitch);
  Sets trees = sets_within(devices, Path::kTree);
  Sets bridges = sets_within(devices, Path::kBridge);
  Sets sockets = sets_within(devices, Path::kNode);
  join_by_memory(devices, sockets, doubts);
  std::vector<Place> places(count);
  for (std::size_t i = 0; i < count; ++i) {
    places[i] = {static_cast<int>(sockets.root(i)),
                 static_cast<int>(bridges.root(i)),
                 static_cast<int>(trees.root(i)),
                 static_cast<int>(leaves.root(i)),
                 {}};
  }
  remark_contradictions(devices, places, remarks);
  return places;
}

}  // namespace trireme::topologies
