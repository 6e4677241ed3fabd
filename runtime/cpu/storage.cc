#include "runtime/cpu/storage.h"

#include <algorithm>
#include <cstring>

namespace trireme::runtime::cpu {

Storage::Storage(const StepProgram& program, const Program& role)
    : program_(&program), role_(&role), blocks_(role.buffers.size()) {}

void* Storage::allocate(BufferId id) {
  const Buffer& buffer = role_->buffers[index_of(id)];
  const Bytes size = size_of(*program_, buffer);
  if (!buffer.host) {
    allocated_ += size;
    peak_ = std::max(peak_, allocated_);
  }
  Block& block = blocks_[index_of(id)];
  // One byte more, so that an empty buffer has an address.
  block.bytes.reset(static_cast<std::byte*>(
      ::operator new(static_cast<std::size_t>(size.value) + 1, kAlignment)));
  block.released = false;
  if (buffer.persistent) {
    std::memset(block.bytes.get(), 0, static_cast<std::size_t>(size.value));
  }
  return block.bytes.get();
}

void Storage::release(BufferId id) {
  allocated_ -= size_of(*program_, role_->buffers[index_of(id)]);
  Block& block = blocks_[index_of(id)];
  block.released = true;
  free_unused(block);
}

void Storage::add_user(BufferId id) {
  ++blocks_[index_of(id)].users;
}

void Storage::drop_user(BufferId id) {
  Block& block = blocks_[index_of(id)];
  --block.users;
  free_unused(block);
}

void Storage::free_unused(Block& block) {
  if (block.released && block.users == 0) {
    block.bytes.reset();
  }
}

}  // namespace trireme::runtime::cpu
