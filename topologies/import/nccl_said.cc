#include "topologies/import/nccl_said.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace trireme::topologies {

int number_after(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(key);
  if (at == std::string::npos) {
    return 0;
  }
  const long number = std::strtol(line.c_str() + at + key.size(), nullptr, 10);
  return number > 0 && number <= 100'000'000 ? static_cast<int>(number) : 0;
}

void add_once(std::vector<std::string>& list, const std::string& entry) {
  if (list.size() < 4096 && std::ranges::find(list, entry) == list.end()) {
    list.push_back(entry);
  }
}

namespace {

// "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
void read_adapters(const std::string& line, NcclSaid& said) {
  std::istringstream stream(line.substr(line.find("Using")));
  for (std::string word; stream >> word;) {
    const std::size_t bracket = word.find(']');
    const std::size_t slash = word.find('/');
    if (word.starts_with("OOB")) {
      return;
    }
    if (word.starts_with('[') && bracket != std::string::npos && slash != std::string::npos &&
        slash > bracket) {
      add_once(said.adapters, word.substr(bracket + 1, slash - bracket - 1));
      said.infiniband = said.infiniband || word.substr(slash + 1).starts_with("IB");
      said.roce = said.roce || word.substr(slash + 1).starts_with("RoCE");
    }
  }
}

// "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>"
void read_sockets(const std::string& line, NcclSaid& said) {
  said.family = "tcp";
  std::istringstream stream(line.substr(line.find("Using")));
  for (std::string word; stream >> word;) {
    const std::size_t bracket = word.find(']');
    const std::size_t colon = word.find(':');
    if (word.starts_with('[') && bracket != std::string::npos && colon != std::string::npos &&
        colon > bracket) {
      add_once(said.adapters, word.substr(bracket + 1, colon - bracket - 1));
    }
  }
}

// Which network there is, by the line that names it.
void read_said_network(const std::string& line, NcclSaid& said) {
  const auto has = [&line](const char* words) { return line.find(words) != std::string::npos; };
  if (has("NET/IB : Using")) {
    read_adapters(line, said);
  } else if (has("NET/IB : Made virtual device")) {
    // "[0] name=mlx5_0 speed=400000 ndevs=1"
    const std::size_t name = line.find("name=");
    const int speed = number_after(line, "speed=");
    if (name != std::string::npos && speed > 0 && said.mbit.size() < 256) {
      said.mbit[line.substr(name + 5, line.find(' ', name) - name - 5)] = speed;
    }
  } else if (has("NET/Socket : Using")) {
    read_sockets(line, said);
  } else if (has("NET/OFI Selected Provider is efa") || has("NET/OFI Selected provider is efa")) {
    said.family = "efa";
    const int found = std::min(number_after(line, "found "), 256);
    for (int i = 0; i < found; ++i) {
      add_once(said.adapters, "efa " + std::to_string(i));
    }
  } else if (has("NET/FasTrak")) {
    said.family = "tcpxo";
  } else if (has("NET/GPUDirectTCPX")) {
    said.family = "tcpx";
  }
}

// "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "... [send] via NET/IB/0/GDRDMA"; what NCCL itself
// finds wrong.
void read_channels(const std::string& line, NcclSaid& said) {
  const auto has = [&line](const char* words) { return line.find(words) != std::string::npos; };
  if (has(" via P2P")) {
    ++said.by_peer;
  } else if (has(" via SHM")) {
    ++said.by_host;
  } else if (has(" via NET/IB") || has(" via NET/Libfabric") || has(" via NET/AWS Libfabric")) {
    ++(has("/GDRDMA") ? said.direct : said.indirect);
  } else if (has("P2P is disabled between") && said.doubts.size() < 64) {
    const std::size_t at = line.find("P2P is disabled between");
    said.doubts.push_back(
        {"peer access",
         "NCCL says: " + line.substr(at, std::min(line.find('.', at) - at, std::size_t{200})),
         "look for PCIe ACS (lspci -vvv: ACSCtl with SrcValid+), links that are "
         "down (nvidia-smi nvlink -s), and Xid errors in the kernel's log"});
  }
}

// "host:pid:thread [device] NCCL INFO": who prints.
void read_printer(const std::string& line, NcclSaid& said) {
  const std::size_t info = line.find(" NCCL INFO");
  const std::size_t open = info == std::string::npos ? info : line.rfind('[', info);
  if (open == std::string::npos || open > 200) {
    return;
  }
  const std::size_t word = line.rfind(' ', open > 1 ? open - 2 : 0);
  const std::size_t start = word == std::string::npos ? 0 : word + 1;
  const std::size_t colon = line.find(':', start);
  if (colon < open && said.seen.size() < 4096) {
    std::set<std::string>& devices = said.seen[line.substr(start, colon - start)];
    if (devices.size() < 256) {
      devices.insert(line.substr(open, info - open));
    }
  }
}

// "NCCL_ALGO set by environment to Ring."
void read_setting(const std::string& line, NcclSaid& said) {
  constexpr std::string_view kSet = " set by environment to ";
  const std::size_t at = line.find(kSet);
  const std::size_t name = at == std::string::npos ? at : line.rfind("NCCL_", at);
  if (name == std::string::npos || at - name > 40) {
    return;
  }
  std::string value = line.substr(at + kSet.size());
  value.erase(value.find_last_not_of(" .\t\r") + 1);
  const std::pair<std::string, std::string> setting{line.substr(name, at - name), value};
  if (said.settings.size() < 64 &&
      std::ranges::find(said.settings, setting) == said.settings.end()) {
    said.settings.push_back(setting);
  }
}

}  // namespace

void read_said(const std::string& line, NcclSaid& said) {
  read_said_network(line, said);
  read_channels(line, said);
  read_printer(line, said);
  read_setting(line, said);
  said.clique = std::max(said.clique, number_after(line, "cliqueSize "));
}

BytesPerSecond told_rate(const NcclSaid& said, const std::string& adapter) {
  const auto found = said.mbit.find(adapter.substr(0, adapter.find(':')));  // "mlx5_0:1"
  const int of_all = said.mbit.size() == 1 ? said.mbit.begin()->second : 0;
  const int mbit = found != said.mbit.end() ? found->second : of_all;
  return BytesPerSecond(mbit * 1e6 / 8.0);
}

int printers(const NcclSaid& said) {
  std::size_t all = 0;
  for (const auto& [host, devices] : said.seen) {
    all += devices.size();
  }
  return static_cast<int>(all);
}

void add_said(const NcclSaid& said, bool linked, NodeFacts& facts) {
  facts.family = said.infiniband ? "infiniband" : (said.roce ? "roce" : said.family);
  facts.nccl = said.settings;
  facts.doubts.insert(facts.doubts.end(), said.doubts.begin(), said.doubts.end());
  if (said.by_host > 0 && said.by_peer == 0) {
    facts.peer_to_peer = false;
    if (linked) {
      facts.doubts.push_back({"peer access",
                              "GPUs that have links between them go through host memory (via SHM)",
                              "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; in containers share "
                              "/dev/shm and the process namespace"});
    }
  }
  if (said.indirect > 0 && said.direct == 0) {
    facts.doubts.push_back({"GPUDirect RDMA",
                            "no channel between nodes uses it (via NET/..., without /GDRDMA)",
                            "load nvidia-peermem (or dmabuf); where adapters are far from GPUs, "
                            "measure NCCL_NET_GDR_LEVEL"});
  }
}

}  // namespace trireme::topologies
