#include "runtime/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "runtime/sockets.h"

namespace trireme::runtime {
namespace {

// What a rank brings: its host and what it was told, or why it refuses, which has no name.
struct Brought {
  std::string host;
  std::vector<Told> told;
};

std::string pack(const std::vector<Told>& told) {
  std::string bytes = host_identity();
  for (const auto& [name, value] : told) {
    bytes.append(1, '\0').append(name).append(1, '\0').append(value);
  }
  return bytes;
}

// Takes the text up to the next zero byte off the front.
std::string take(std::string& bytes) {
  const std::size_t cut = std::min(bytes.find('\0'), bytes.size());
  std::string text = bytes.substr(0, cut);
  bytes.erase(0, cut + 1);
  return text;
}

Brought unpack(std::string bytes) {
  Brought brought{.host = take(bytes), .told = {}};
  while (!bytes.empty()) {
    std::string name = take(bytes);
    brought.told.push_back({std::move(name), take(bytes)});
  }
  return brought;
}

std::string shown(const std::string& value) {
  return value.empty() ? "none" : value;
}

// An error's two parts with a zero byte between them; empty when all is alike.
std::string verdict_on(const std::vector<std::string>& blobs) {
  std::vector<Brought> ranks(blobs.size());
  std::transform(blobs.begin(), blobs.end(), ranks.begin(), unpack);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].told.size() == 1 && ranks[rank].told[0].name.empty()) {
      return fmt::format("rank {} on {}", rank, ranks[rank].host) + '\0' +
             "cannot go on: " + ranks[rank].told[0].value;
    }
  }
  const Brought& first = ranks.at(0);
  for (std::size_t i = 0; i < first.told.size(); ++i) {
    const auto& [name, value] = first.told[i];
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      const std::vector<Told>& other = ranks[rank].told;
      if (i >= other.size() || other[i].name != name || other[i].value != value) {
        return name + '\0' +
               fmt::format("rank 0 on {} has {}, rank {} on {} has {}; give every rank the same",
                           first.host, shown(value), rank, ranks[rank].host,
                           i < other.size() ? shown(other[i].value) : "nothing");
      }
    }
  }
  return "";
}

// Throws the verdict on what all ranks brought, on every rank.
void meet(Coordinator& coordinator, const std::vector<Told>& told) {
  const std::vector<std::string> all = coordinator.gather(pack(told));
  std::string verdict =
      coordinator.broadcast(coordinator.rank() == Rank(0) ? verdict_on(all) : std::string());
  if (verdict.empty()) {
    return;
  }
  try {
    coordinator.barrier();  // rank 0's store goes with it: first everybody reads the verdict
  } catch (const Error&) {  // who has gone has read it
  }
  const std::string where = take(verdict);
  throw Error(where, verdict);
}

}  // namespace

void require_alike(Coordinator& coordinator, const std::vector<Told>& told) {
  meet(coordinator, told);
}

void refuse(Coordinator& coordinator, const std::string& why) {
  try {
    meet(coordinator, {{"", why}});
  } catch (const Error&) {  // what the others throw, or there are none any more
  }
}

void refuse(const RankEnvironment& environment, const std::string& why) {
  constexpr Seconds kPatience(10);
  try {
    const auto coordinator = make_store_coordinator(environment, kPatience);
    meet(*coordinator, {{"", why}});
  } catch (const Error&) {  // as above
  }
}

}  // namespace trireme::runtime
