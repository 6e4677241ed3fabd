// What an NCCL log says beside its graph: the network, how channels go, which variables are set,
// and who prints.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topologies/import/facts.h"

namespace trireme::topologies {

struct NcclSaid {
  std::vector<std::string> adapters;
  bool infiniband = false, roce = false;
  std::string family;               // of a network that is neither
  std::map<std::string, int> mbit;  // of adapters, where told
  int clique = 0;                   // GPUs of one NVLink domain over several hosts; 0: not told
  std::map<std::string, std::set<std::string>> seen;  // hosts, and their devices that print
  int by_peer = 0, by_host = 0;  // channels inside a node: by peer access, through host memory
  int direct = 0, indirect = 0;  // channels between nodes: with GPUDirect RDMA, without
  std::vector<std::pair<std::string, std::string>> settings;  // NCCL's variables
  std::vector<Doubt> doubts;
};

void read_said(const std::string& line, NcclSaid& said);
// Of an adapter, or of all of them where one is told; 0: not told.
BytesPerSecond told_rate(const NcclSaid& said, const std::string& adapter);
// How many ranks print.
int printers(const NcclSaid& said);
// `linked`: GPUs have links between them.
void add_said(const NcclSaid& said, bool linked, NodeFacts& facts);

// Appends what is not there yet, up to 4096 entries.
void add_once(std::vector<std::string>& list, const std::string& entry);
// The number behind `key`, from 1 to 1e8; else 0.
int number_after(const std::string& line, const std::string& key);

}  // namespace trireme::topologies
