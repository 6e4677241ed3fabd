// How many rings the links between GPUs hold: NCCL's search finds rings that visit each GPU once
// and share no link; the least cut (by max flow) bounds them.
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <numeric>

#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<
        boost::edge_capacity_t, int,
        boost::property<boost::edge_residual_capacity_t, int,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

// Links are symmetric, so the least cut between GPU 0 and any other bounds all.
int least_cut(const LinkCounts& left) {
  const std::size_t count = left.size();
  FlowGraph graph(count);
  const auto capacity = get(boost::edge_capacity, graph);
  const auto reverse = get(boost::edge_reverse, graph);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      if (left[a][b] > 0) {
        const auto there = add_edge(a, b, graph).first;
        const auto back = add_edge(b, a, graph).first;
        capacity[there] = capacity[back] = left[a][b];
        reverse[there] = back;
        reverse[back] = there;
      }
    }
  }
  int least = std::numeric_limits<int>::max();
  for (std::size_t to = 1; to < count; ++to) {
    least = std::min(least, edmonds_karp_max_flow(graph, std::size_t{0}, to));
  }
  return least;
}

// Packs rings by depth-first search. The steps are bounded, so that dense graphs cost no more than
// a few milliseconds; a ring more or less of many is within what NCCL's own search leaves.
class RingSearch {
 public:
  explicit RingSearch(LinkCounts left) : left_(std::move(left)) {}

  bool fits(int wanted) {
    steps_ = 0;
    return rings(wanted);
  }

 private:
  static constexpr int kStepsMost = 20'000;

  bool rings(int wanted) { return wanted == 0 || extend(0, 1U, wanted); }

  // Prefers the neighbour with most links left, so that parallel links wear down evenly.
  bool extend(std::size_t at, std::uint64_t visited, int wanted) {
    if (++steps_ > kStepsMost) {
      return false;
    }
    const std::size_t count = left_.size();
    const bool all = visited == (~std::uint64_t{0} >> (64 - count));
    std::vector<std::size_t> next;
    for (std::size_t to = 0; to < count; ++to) {
      const bool closes = all && to == 0;
      if (left_[at][to] > 0 && (closes || ((visited >> to) & 1U) == 0U)) {
        next.push_back(to);
      }
    }
    std::ranges::stable_sort(next, std::ranges::greater{},
                             [this, at](std::size_t to) { return left_[at][to]; });
    for (const std::size_t to : next) {
      --left_[at][to];
      const bool found =
          all ? rings(wanted - 1) : extend(to, visited | (std::uint64_t{1} << to), wanted);
      ++left_[at][to];
      if (found) {
        return true;
      }
    }
    return false;
  }

  LinkCounts left_;
  int steps_ = 0;
};

}  // namespace

int ring_count(const LinkCounts& links, const std::vector<int>& members) {
  const std::size_t count = members.size();
  LinkCounts among(count, std::vector<int>(count, 0));
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      among[a][b] =
          links[static_cast<std::size_t>(members[a])][static_cast<std::size_t>(members[b])];
    }
  }
  if (count < 2) {
    return 0;
  }
  // Links that always come in bundles are searched once.
  int bundle = 0;
  for (const std::vector<int>& row : among) {
    bundle = std::accumulate(row.begin(), row.end(), bundle, std::gcd<int, int>);
  }
  if (bundle == 0) {
    return 0;
  }
  for (std::vector<int>& row : among) {
    for (int& links_left : row) {
      links_left /= bundle;
    }
  }
  const int bound = least_cut(among);
  bool even = true;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      even = even && (a == b || among[a][b] == among[0][1]);
    }
  }
  constexpr std::size_t kSearchMost = 16;
  if (even || count > kSearchMost) {
    return bundle * bound;
  }
  for (int wanted = bound; wanted > 0; --wanted) {
    if (RingSearch(among).fits(wanted)) {
      return bundle * wanted;
    }
  }
  return bundle * bound;
}

}  // namespace trireme::topologies
