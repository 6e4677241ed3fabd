#include "tools/topo_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include "tools/page.h"
#include "tools/topo_answer.h"
#include "topologies/cluster_graph.h"
#include "topologies/network_tiers.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"
#include "topologies/node_parts.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

using topologies::Cluster;
using topologies::LinkKind;
using topologies::Node;
using topologies::NodeLayout;

constexpr int kWide = 350;  // of a drawing: fits a telephone beside another's margins
constexpr int kGap = 5;
constexpr int kLine = 14;  // of text

// A piece of a drawing, from its own upper left corner.
struct Piece {
  std::string svg;
  int width = 0, height = 0;
};

std::string text_at(int x, int y, const std::string& text, const char* more = "class=\"soft\"") {
  return fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>", x, y, more, html_text(text));
}

// A frame's class; what limits stands out.
const char* frame(bool limits) {
  return limits ? "node limit" : "node";
}

// White on dark colours, black on light ones.
std::string ink_on(const std::string& colour) {
  const auto part = [&colour](std::size_t at) {
    return std::stoi(colour.substr(at, 2), nullptr, 16);
  };
  const double light = 0.3 * part(1) + 0.59 * part(3) + 0.11 * part(5);
  return light > 140 ? "#1b1f24" : "#ffffff";
}

Piece device(const std::string& name, const std::string& below, const std::string& colour,
             const std::string& hover, bool limits) {
  constexpr int kDevice = 50;
  const std::string style = fmt::format("text-anchor=\"middle\" style=\"fill:{}\"", ink_on(colour));
  return {fmt::format("<rect class=\"{}\" style=\"fill:{}\" width=\"{}\" height=\"33\" rx=\"4\">"
                      "<title>{}</title></rect>",
                      limits ? "limit" : "", colour, kDevice, html_text(hover)) +
              text_at(kDevice / 2, 14, name, style.c_str()) +
              text_at(kDevice / 2, 27, below, style.c_str()),
          kDevice, 33};
}

// Side by side, in as many rows as it takes.
Piece flow(const std::vector<Piece>& pieces, int most) {
  Piece all;
  int x = 0;
  int y = 0;
  int row = 0;
  for (const Piece& piece : pieces) {
    if (x > 0 && x + piece.width > most) {
      x = 0;
      y += row + kGap;
      row = 0;
    }
    all.svg += fmt::format("<g transform=\"translate({} {})\">{}</g>", x, y, piece.svg);
    all.width = std::max(all.width, x + piece.width);
    x += piece.width + kGap;
    row = std::max(row, piece.height);
  }
  all.height = y + row;
  return all;
}

Piece framed(const std::vector<std::string>& lines, const Piece& inside, bool limits) {
  Piece piece;
  std::size_t longest = 0;
  std::string text;
  int y = 0;
  for (const std::string& line : lines) {
    y += kLine;
    text += text_at(kGap, y, line);
    longest = std::max(longest, line.size());
  }
  y += kGap;
  piece.width = std::max(inside.width + 2 * kGap, static_cast<int>(longest) * 6 + 2 * kGap);
  piece.height = y + inside.height + (inside.height > 0 ? kGap : 0);
  piece.svg = fmt::format(
      "<rect class=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>{}"
      "<g transform=\"translate({} {})\">{}</g>",
      frame(limits), piece.width, piece.height, text, kGap, y, inside.svg);
  return piece;
}

std::string svg_of(const Piece& piece, const std::string& label) {
  return fmt::format(
      "<svg viewBox=\"-1 -1 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"{2}\">{3}</svg>\n",
      piece.width + 2, piece.height + 2, html_text(label), piece.svg);
}

std::string rate_text(BytesPerSecond rate) {
  const double value = gigabytes(rate);
  return value < 1000.0 ? fmt::format("{:.3g} GB/s", value)
                        : fmt::format("{:.3g} TB/s", value / 1000.0);
}

// The group that a rank is in, counted through the cluster.
std::int64_t group_of(const ShownGroups& groups, std::int64_t rank) {
  return rank / (groups.ranks * groups.stride) * groups.stride + rank % groups.stride;
}

// What limits a ring over such groups.
topologies::Route narrowest_of(const Cluster& cluster, const ShownGroups& groups) {
  return group_bottleneck(cluster, group_shape(cluster, groups.ranks, groups.stride));
}

struct Shown {
  const Cluster& cluster;
  const Node& node;
  const ShownGroups& groups;
  std::int64_t first = 0;  // rank
  LinkKind limit = LinkKind::kOther;

  [[nodiscard]] std::string colour(std::int64_t gpu) const {
    const std::int64_t rank = first + gpu;
    return rank < cluster.gpus ? colour_at(static_cast<std::size_t>(group_of(groups, rank)))
                               : "#777777";
  }
};

Piece gpu_piece(const Shown& shown, int gpu) {
  const std::int64_t rank = shown.first + gpu;
  const bool used = rank < shown.cluster.gpus;
  return device(
      fmt::format("GPU{}", gpu), used ? fmt::format("rank {}", rank) : "unused", shown.colour(gpu),
      fmt::format("PCIe {}{}", rate_text(topologies::pcie_carries(gpu_pcie(shown.node, gpu))),
                  used ? fmt::format(", group {}", group_of(shown.groups, rank)) : ""),
      shown.limit == LinkKind::kPcie);
}

Piece nic_piece(const Shown& shown, int nic) {
  const BytesPerSecond rate = adapter_rate(shown.node, nic);
  return device(fmt::format("NIC{}", nic), rate_text(rate), "#4d5a66",
                fmt::format("{}, line rate {}", rate_text(rate), rate_text(shown.node.nic)),
                shown.limit == LinkKind::kAdapter);
}

// Sockets, the switches below them, and what hangs there; of large nodes the first sockets.
std::vector<Piece> sockets(const Shown& shown) {
  constexpr std::size_t kGpusMost = 16;
  const NodeLayout layout = layout_of(shown.node);
  std::map<int, std::map<int, std::map<int, std::vector<Piece>>>> below;
  for (std::size_t i = 0; i < layout.gpus.size(); ++i) {
    const topologies::Place& place = layout.gpus[i];
    below[place.socket][place.tree][place.leaf].push_back(gpu_piece(shown, static_cast<int>(i)));
  }
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    const topologies::Place& place = layout.nics[i];
    below[place.socket][place.tree][place.leaf].push_back(nic_piece(shown, static_cast<int>(i)));
  }
  const bool pcie = shown.limit == LinkKind::kPcie;
  const std::string up = rate_text(topologies::pcie_carries(shown.node.pcie_per_gpu)) + " up";
  std::vector<Piece> pieces;
  std::size_t drawn = 0;
  for (const auto& [socket, trees] : below) {
    if (drawn >= kGpusMost) {
      pieces.push_back(
          framed({fmt::format("... {} more sockets", below.size() - pieces.size())}, {}, false));
      break;
    }
    std::vector<Piece> ports;
    for (const auto& [tree, leaves] : trees) {
      std::vector<Piece> switches;
      for (const auto& [leaf, devices] : leaves) {
        switches.push_back(framed({up}, flow(devices, kWide - 6 * kGap), pcie));
        drawn += devices.size();
      }
      ports.push_back(leaves.size() > 1
                          ? framed({"root port, " + up}, flow(switches, kWide - 5 * kGap), pcie)
                          : switches.front());
    }
    const std::string name = below.size() > 1 ? fmt::format("CPU{}, {} to the next", socket,
                                                            rate_text(shown.node.socket_link))
                                              : fmt::format("CPU{}", socket);
    pieces.push_back(framed({name}, flow(ports, kWide - 3 * kGap), false));
  }
  return pieces;
}

// GPUs round a circle, and the links between them: to the switch in the middle, or to each other.
Piece links(const Shown& shown) {
  constexpr int kSide = 190;
  constexpr double kRadius = 72.0;
  const Node& node = shown.node;
  const auto place = [&node](int gpu) {
    const double turn = 2.0 * std::numbers::pi * gpu / node.gpus - std::numbers::pi / 2;
    return std::pair(kSide / 2.0 + kRadius * std::cos(turn),
                     kSide / 2.0 + kRadius * std::sin(turn));
  };
  const bool limits = shown.limit == LinkKind::kFast;
  const bool small = node.gpus <= 16;
  const auto line = [](std::pair<double, double> a, std::pair<double, double> b, int width,
                       bool red, const std::string& hover) {
    return fmt::format(
        "<line class=\"{}\" style=\"stroke-width:{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" "
        "x2=\"{:.1f}\" y2=\"{:.1f}\"><title>{}</title></line>",
        red ? "limit" : "chord", width, a.first, a.second, b.first, b.second, hover);
  };
  Piece piece{"", kSide, kSide};
  const topologies::LinkCounts counts = layout_of(node).links;
  const BytesPerSecond one = node.nvlink_per_gpu * (1.0 / std::max(1, node.nvlink_links));
  for (int a = 0; a < node.gpus; ++a) {
    if (counts.empty()) {
      piece.svg += line(place(a), {kSide / 2.0, kSide / 2.0}, small ? 2 : 1, limits,
                        fmt::format("GPU{}: {}", a, rate_text(node.nvlink_per_gpu)));
      continue;
    }
    for (int b = 0; b < a; ++b) {
      const int count = counts[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
      if (count > 0) {
        piece.svg += line(place(a), place(b), std::min(count, 4),
                          limits && shown.colour(a) == shown.colour(b),
                          fmt::format("GPU{} to GPU{}: {} of {}", b, a, count, rate_text(one)));
      }
    }
  }
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    const auto [x, y] = place(gpu);
    piece.svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" style=\"fill:{}\"/>", x,
                             y, small ? 12 : 3, shown.colour(gpu));
    if (small) {
      piece.svg += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" style=\"fill:{}\">{}</text>", x,
          y + 4, ink_on(shown.colour(gpu)), gpu);
    }
  }
  return piece;
}

std::string fast_text(const Node& node) {
  return fmt::format("{}: {} a GPU", fabric_name(node.fabric), rate_text(node.nvlink_per_gpu));
}

// "nodes 0-31", "node 4".
std::string nodes_text(std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format("node {}", first)
                    : fmt::format("nodes {}-{}", first, first + count - 1);
}

// The parts of a tier below `end`, from `first` on, each with those of the tier below in it.
std::vector<Piece> parts(const Cluster& cluster, std::size_t tier, std::int64_t first,
                         std::int64_t end, bool limits, int most) {
  constexpr std::size_t kShown = 6;
  const std::vector<topologies::NetworkTier> tiers = network_tiers(cluster);
  std::vector<Piece> pieces;
  std::int64_t rest = 0;
  for (std::int64_t at = first; at < end;) {
    const std::int64_t whole = part_size(cluster, tier, part_of_node(cluster, tier, at));
    const std::int64_t count = std::min(whole, end - at);
    if (pieces.size() < kShown) {
      pieces.push_back(framed(
          {fmt::format("{} {}: {}", tiers[tier].name, part_of_node(cluster, tier, at),
                       nodes_text(at, count)),
           rate_text(uplinks_from(cluster, tier, at)) + " out"},
          tier > 0 ? flow(parts(cluster, tier - 1, at, at + count, limits, most - 2 * kGap), most)
                   : Piece{},
          limits));
    } else {
      ++rest;
    }
    at += count;
  }
  if (rest > 0) {
    pieces.push_back(framed({fmt::format("... {} more", rest)}, {}, false));
  }
  return pieces;
}

}  // namespace

std::string node_svg(const Cluster& cluster, std::int64_t node, const ShownGroups& groups) {
  const topologies::Route limit = narrowest_of(cluster, groups);
  const Shown shown{cluster, node_at(cluster, node), groups, first_rank_of(cluster, node),
                    limit.limit};
  std::vector<Piece> pieces = sockets(shown);
  if (shown.node.nvlink_domain > 1) {
    pieces.push_back(framed({fast_text(shown.node)}, links(shown), limit.limit == LinkKind::kFast));
  }
  const std::string title =
      fmt::format("node {}: rings over {}, {} ranks", node, groups.what, groups.ranks);
  std::vector<std::string> lines = {title};
  if (!limit.bottleneck_link.empty()) {
    lines.push_back(
        fmt::format("limited by {}: {}", limit.bottleneck_link, rate_text(limit.bottleneck)));
  }
  return svg_of(framed(lines, flow(pieces, kWide - 2 * kGap), false), title);
}

std::string network_svg(const Cluster& cluster, const ShownGroups& groups) {
  const topologies::Network& network = cluster.network;
  if (network.kind == topologies::Network::Kind::kNone) {
    return "";
  }
  const bool limits = narrowest_of(cluster, groups).limit == LinkKind::kUplink;
  std::vector<std::string> lines = {
      fmt::format("{}, {}", network.name, network_kind_name(network.kind)),
      fmt::format("{}{} x {} into each node",
                  topologies::has_unlike_nodes(cluster) ? "at least " : "", cluster.node.nics,
                  rate_text(cluster.node.nic))};
  const std::size_t tiers = network_tiers(cluster).size();
  std::vector<Piece> pieces;
  if (tiers > 0) {
    pieces = parts(cluster, tiers - 1, 0, cluster.nodes, limits, kWide - 2 * kGap);
  } else {
    pieces.push_back(framed(
        {network.torus.empty() ? nodes_text(0, cluster.nodes) + " below one set of leaves"
                               : fmt::format("torus of {} nodes", fmt::join(network.torus, " x "))},
        {}, false));
  }
  return svg_of(framed(lines, flow(pieces, kWide - 2 * kGap), false), "the network");
}

}  // namespace trireme::tools
