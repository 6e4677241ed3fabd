// `ibnetdiscover`, also with --ports: switches and channel adapters of an InfiniBand fabric, with
// who is plugged where.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "core/error.h"
#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

struct Port {
  std::string leaf;     // GUID of its switch
  std::string adapter;  // GUID of the adapter
  std::string host;
  double gbit = 0.0;
};

struct Fabric {
  std::vector<Port> ports;                   // of hosts, in the order of the file
  std::map<std::string, std::string> names;  // of switches, by GUID
  std::map<std::string, double> up, down;    // Gbit/s of a switch to switches, and to hosts
  std::map<std::string, std::set<std::string>> peers;  // of a switch: switches
  std::vector<std::string> order;                      // of switches
};

bool is_adapter(const std::string& description) {
  return description.find("Aggregation Node") == std::string::npos;  // a switch's reduction unit
}

// The text between the quotes that start at or behind `from`; moves it behind them.
std::string quoted(const std::string& line, std::size_t& from) {
  const std::size_t open = line.find('"', from);
  const std::size_t close = open == std::string::npos ? open : line.find('"', open + 1);
  if (close == std::string::npos) {
    from = line.size();
    return "";
  }
  from = close + 1;
  return line.substr(open + 1, close - open - 1);
}

// "4xHDR", "2xHDR", "4xNDR": lanes times the generation's data rate of one lane.
double rate_of(const std::string& line) {
  constexpr std::pair<const char*, double> kLanes[] = {
      {"xSDR", 2.0},  {"xDDR", 4.0},  {"xQDR", 8.0},   {"xFDR10", 10.0}, {"xFDR", 13.64},
      {"xEDR", 25.0}, {"xHDR", 50.0}, {"xNDR", 100.0}, {"xXDR", 200.0}};
  for (const auto& [name, gbit] : kLanes) {
    const std::size_t at = line.rfind(name);
    if (at != std::string::npos && at > 0) {
      std::size_t digits = at;
      while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9') {
        --digits;
      }
      const int lanes =
          at - digits <= 2 && at > digits ? std::stoi(line.substr(digits, at - digits)) : 4;
      return lanes * gbit;
    }
  }
  return 0.0;
}

// An adapter's description starts with its host: "node-2 mlx5_0", "node-5 HCA-1"; where it names
// only the chip, the adapter is its own host.
std::string host_of(const std::string& description, const std::string& guid) {
  const std::size_t blank = description.find(' ');
  const std::string second = blank == std::string::npos ? "" : description.substr(blank + 1);
  const bool named = second.starts_with("mlx") || second.starts_with("HCA") ||
                     second.starts_with("ibp") || second.starts_with("hfi") ||
                     second.starts_with("rocep") || second.starts_with("qib");
  return named ? description.substr(0, blank) : guid;
}

void read_port(const std::string& line, const std::string& own, Fabric& fabric) {
  std::size_t at = 0;
  const std::string guid = quoted(line, at);
  if (guid.size() < 3 || guid[1] != '-') {
    return;
  }
  const double gbit = rate_of(line);
  if (guid[0] == 'S') {
    fabric.up[own] += gbit;
    fabric.peers[own].insert(guid);
    return;
  }
  if (guid[0] != 'H') {
    return;
  }
  const std::string description = quoted(line, at);
  if (!is_adapter(description)) {
    return;
  }
  fabric.down[own] += gbit;
  fabric.ports.push_back({own, guid, host_of(description, guid), gbit});
}

Fabric read_fabric(const std::string& text) {
  Fabric fabric;
  std::string own;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#') {
      continue;
    }
    if (line.compare(first, 6, "Switch") == 0) {
      std::size_t at = 0;
      own = quoted(line, at);
      if (fabric.names.emplace(own, quoted(line, at)).second) {
        fabric.order.push_back(own);
      }
    } else if (line.compare(first, 2, "Ca") == 0 || line.compare(first, 2, "Rt") == 0) {
      own.clear();
    } else if (line[first] == '[' && !own.empty()) {
      read_port(line, own, fabric);
    }
  }
  return fabric;
}

// One end of a link as --ports prints it: "SW  1719 10 0x7cfe9003009ce5b0".
struct End {
  std::string kind, guid, port, name;
};

void add_switch(const End& end, Fabric& fabric) {
  if (fabric.names.emplace(end.guid, end.name).second) {
    fabric.order.push_back(end.guid);
  }
}

// "CA 134 1 0x7cfe 4x EDR - SW 1719 10 0x7cfe ( 'o0001 HCA-1' - 'ib-i1l1s01' )": each link stands
// there from both of its ends, or from one.
Fabric read_ports(const std::string& text) {
  Fabric fabric;
  std::set<std::string> known;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    End ends[2];
    std::string lid, width, speed, dash;
    std::istringstream words(line);
    words >> ends[0].kind >> lid >> ends[0].port >> ends[0].guid >> width >> speed >> dash >>
        ends[1].kind >> lid >> ends[1].port >> ends[1].guid;
    const std::size_t open = line.find("( '");
    const std::size_t between = line.find("' - '", open);
    const std::size_t close = line.rfind('\'');
    if (!words || dash != "-" || open == std::string::npos || between == std::string::npos ||
        close < between + 5) {
      continue;  // a port without a cable
    }
    ends[0].name = line.substr(open + 3, between - open - 3);
    ends[1].name = line.substr(between + 5, close - between - 5);
    if (ends[0].kind != "SW") {
      std::swap(ends[0], ends[1]);
    }
    const auto& [own, other] = ends;
    if (own.kind != "SW" || !known.insert(own.guid + " " + own.port).second) {
      continue;
    }
    add_switch(own, fabric);
    const double gbit = rate_of(width + speed);
    if (other.kind == "SW") {
      add_switch(other, fabric);
      fabric.up[own.guid] += gbit;
      fabric.peers[own.guid].insert(other.guid);
      if (known.insert(other.guid + " " + other.port).second) {
        fabric.up[other.guid] += gbit;
        fabric.peers[other.guid].insert(own.guid);
      }
    } else if (is_adapter(other.name)) {
      fabric.down[own.guid] += gbit;
      fabric.ports.push_back({own.guid, other.guid, host_of(other.name, other.guid), gbit});
    }
  }
  return fabric;
}

// Leaves below the same switches of the second level are of one pod, where a third level joins
// them: the pod of each leaf. Empty without a third level.
std::map<std::string, int> pods_of(const Fabric& fabric, int& levels) {
  std::set<std::string> leaves;
  std::set<std::string> middle;
  for (const auto& [leaf, gbit] : fabric.down) {
    leaves.insert(leaf);
  }
  for (const auto& [own, peers] : fabric.peers) {
    for (const std::string& peer : peers) {
      if (leaves.contains(own) != leaves.contains(peer)) {
        middle.insert(leaves.contains(own) ? peer : own);
      }
    }
  }
  levels = middle.empty() ? 1 : 2;
  for (const std::string& own : fabric.order) {
    levels =
        !leaves.contains(own) && !middle.contains(own) && fabric.peers.contains(own) ? 3 : levels;
  }
  std::map<std::string, int> pods;
  int count = 0;
  for (const std::string& start : fabric.order) {
    if (levels < 3 || !leaves.contains(start) || pods.contains(start)) {
      continue;
    }
    std::vector<std::string> open = {start};
    while (!open.empty()) {
      const std::string at = open.back();
      open.pop_back();
      const auto peers = fabric.peers.find(at);
      if (!pods.emplace(at, count).second || peers == fabric.peers.end()) {
        continue;
      }
      for (const std::string& peer : peers->second) {
        if (leaves.contains(at) ? middle.contains(peer) : leaves.contains(peer)) {
          open.push_back(peer);
        }
      }
    }
    ++count;
  }
  return pods;
}

// A host's unit is the set of leaves it hangs on: one leaf, or the leaves of its rails.
std::vector<NetworkFacts::Unit> units_of(const Fabric& fabric,
                                         const std::map<std::string, int>& pods, bool& rails) {
  std::map<std::string, std::set<std::string>> leaves;
  std::vector<std::string> hosts;
  for (const Port& port : fabric.ports) {
    if (leaves[port.host].empty()) {
      hosts.push_back(port.host);
    }
    leaves[port.host].insert(port.leaf);
  }
  std::vector<NetworkFacts::Unit> units;
  std::map<std::set<std::string>, std::size_t> known;
  for (const std::string& host : hosts) {
    const std::set<std::string>& own = leaves[host];
    const auto [found, fresh] = known.emplace(own, units.size());
    if (fresh) {
      const auto pod = pods.find(*own.begin());
      units.push_back({fabric.names.at(*own.begin()), {}, {}});
      if (pod != pods.end()) {
        units.back().above = {std::to_string(pod->second), "top"};
      }
    }
    units[found->second].nodes.push_back(host);
    rails = rails || own.size() > 1;
  }
  std::ranges::stable_sort(units, {}, [](const NetworkFacts::Unit& unit) {
    return unit.above.empty() ? 0 : std::stoi(unit.above.front());
  });
  return units;
}

}  // namespace

NetworkFacts read_ibnetdiscover(const std::string& text, const std::string& name) {
  const bool listed = text.find("Switch\t") == std::string::npos &&
                      text.find(" - ") != std::string::npos &&
                      text.find("SW ") != std::string::npos;
  const Fabric fabric = listed ? read_ports(text) : read_fabric(text);
  if (fabric.ports.empty()) {
    throw Error(name,
                "shows no adapter on any switch: lines such as [1] \"H-0000...\"[1] below a "
                "Switch line");
  }
  NetworkFacts facts;
  const std::map<std::string, int> pods = pods_of(fabric, facts.levels);
  facts.units = units_of(fabric, pods, facts.rails);
  // Spines of one rail reach that rail's leaves only: those parts are no pods.
  if (facts.rails && !pods.empty()) {
    for (NetworkFacts::Unit& unit : facts.units) {
      unit.above.clear();
    }
    facts.remarks.push_back(
        "three levels of switches, rails apart: taken as leaves and one level above them");
  }
  std::map<std::string, int> adapters;
  double slowest = 0.0;
  for (const Port& port : fabric.ports) {
    ++adapters[port.host];
    slowest = port.gbit > 0.0 && (slowest <= 0.0 || port.gbit < slowest) ? port.gbit : slowest;
  }
  const auto most =
      std::ranges::max_element(adapters, {}, [](const auto& entry) { return entry.second; });
  facts.nics_per_node = most->second;
  if (std::ranges::any_of(adapters,
                          [&](const auto& entry) { return entry.second != most->second; })) {
    facts.remarks.push_back("hosts have unlike numbers of adapters; all are taken with the most, " +
                            std::to_string(most->second));
  }
  facts.nic = BytesPerSecond(slowest * 1e9 / 8.0);
  double down = 0.0;
  double up = 0.0;
  for (const auto& [leaf, gbit] : fabric.down) {
    down += gbit;
    const auto above = fabric.up.find(leaf);
    up += above == fabric.up.end() ? 0.0 : above->second;
  }
  if (up > 0.0 && down > 0.0) {
    facts.oversubscription = std::max(1.0, down / up);
  }
  return facts;
}

}  // namespace trireme::topologies
