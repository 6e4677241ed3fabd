// Memory of one rank's buffers on the CPU, counted to the byte but for what would lie on a GPU's
// host: a buffer counts from its allocation to its release, both in issue order; its bytes go back
// once the ops that were issued on it have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "core/program.h"
#include "core/units.h"

namespace trireme::runtime::cpu {

class Storage {
 public:
  // Both must outlive the storage.
  Storage(const StepProgram& program, const Program& role);

  // Persistent buffers are zeroed.
  void* allocate(BufferId id);
  void release(BufferId id);
  // An issued op uses the buffer until it drops it.
  void add_user(BufferId id);
  void drop_user(BufferId id);
  [[nodiscard]] Bytes peak() const { return peak_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* block) const { ::operator delete(block, kAlignment); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> bytes;
    std::int64_t users = 0;
    bool released = false;
  };
  void free_unused(Block& block);

  const StepProgram* program_;
  const Program* role_;
  std::vector<Block> blocks_;  // by buffer
  Bytes allocated_, peak_;
};

}  // namespace trireme::runtime::cpu
