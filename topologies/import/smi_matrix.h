// The text of `nvidia-smi topo -m` as a matrix of words.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topologies/nccl_settings.h"

namespace trireme::topologies {

struct SmiMatrix {
  std::vector<std::string> devices;  // GPUs, then adapters, as the header names them
  std::size_t gpus = 0;
  bool memory_column = false;
  std::vector<std::vector<std::string>> cells;  // by device; a row that is cut off is empty
  std::vector<std::string> memory;
  // Every GPU's memory is a NUMA node of its own, or sockets have 72 cores: Grace.
  bool grace = false;
  std::map<std::string, std::string> legend;  // NIC0 -> mlx5_0
  std::size_t matrices = 0;
  // Cells of `nvidia-smi topo -p2p r` in the same file: pairs with peer access, and without.
  int peers = 0, strangers = 0;
};

// Throws Error: no matrix, a row without a column, a row without enough cells.
SmiMatrix parse_smi_matrix(const std::string& text, const std::string& name);

// The words of a line without what terminals and tables put around them (escape sequences, bars).
std::vector<std::string> words_of_line(const std::string& line);
// The path that a cell names; none for links and what is not told.
std::optional<Path> path_of_word(const std::string& word);
// Links of a cell such as NV12; 0 for any other.
int links_of_word(const std::string& word);

}  // namespace trireme::topologies
