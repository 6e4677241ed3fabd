// Owners of what the CUDA runtime hands out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "runtime/cuda/check.h"

namespace trireme::runtime::cuda {

class DeviceBytes {
 public:
  DeviceBytes() = default;
  // Throws Error when the device has not that much left.
  DeviceBytes(std::size_t bytes, const char* what) : bytes_(bytes) {
    if (bytes > 0 && cudaMalloc(&data_, bytes) != cudaSuccess) {
      cudaGetLastError();
      throw Error(what,
                  "needs " + std::to_string(bytes >> 20) +
                      " MiB more than the GPU has free; use a layout that "
                      "needs less memory",
                  ErrorKind::kBadInput);
    }
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(DeviceBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory of the host that the GPU reads and writes itself.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  // Throws Error when the host does not give that much.
  PinnedBytes(std::size_t bytes, const char* what) : bytes_(bytes) {
    if (bytes > 0 && cudaMallocHost(&data_, bytes) != cudaSuccess) {
      cudaGetLastError();
      throw Error(what,
                  "needs " + std::to_string(bytes >> 20) +
                      " MiB of pinned memory, which the host does not give; offload less or use "
                      "more hosts",
                  ErrorKind::kBadInput);
    }
  }
  ~PinnedBytes() { cudaFreeHost(data_); }
  PinnedBytes(PinnedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBytes& operator=(PinnedBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Stream {
 public:
  explicit Stream(int priority) {
    check(cudaStreamCreateWithPriority(&raw_, cudaStreamNonBlocking, priority), "stream");
  }
  ~Stream() {
    if (raw_ != nullptr) {
      cudaStreamDestroy(raw_);
    }
  }
  Stream(Stream&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t raw() const { return raw_; }

 private:
  cudaStream_t raw_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned int flags) { check(cudaEventCreateWithFlags(&raw_, flags), "event"); }
  ~Event() {
    if (raw_ != nullptr) {
      cudaEventDestroy(raw_);
    }
  }
  Event(Event&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] cudaEvent_t raw() const { return raw_; }

 private:
  cudaEvent_t raw_ = nullptr;
};

}  // namespace trireme::runtime::cuda
