// Operands of products in 8 bits on both sides: each kernel runs on the GPU and on the reference.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/cpu/compute.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/host_counts.h"
#include "runtime/cuda/run_kernel.h"

namespace trireme::runtime::cuda {

inline constexpr ElementType kC = ElementType::kCompute;
inline constexpr ElementType kM = ElementType::kMaster;
inline constexpr ElementType kN = ElementType::kNarrow;
inline constexpr ElementType kT = ElementType::kToken;

// Memory of one operand on both sides; on the host compute is float.
struct Operand {
  ElementType type;
  std::vector<float> numbers;
  std::vector<std::uint8_t> codes;
  std::vector<std::int32_t> tokens;
  DeviceBytes device;

  Operand(ElementType kind, std::size_t count)
      : type(kind),
        device(count * (kind == kC   ? 2
                        : kind == kN ? 1
                                     : 4),
               "operand") {
    if (kind == kT) {
      tokens.resize(count);
    } else {
      kind == kN ? codes.resize(count) : numbers.resize(count);
    }
    EXPECT_EQ(cudaMemset(device.data(), 0, device.bytes()), cudaSuccess);
  }
  explicit Operand(const std::vector<std::int32_t>& values) : Operand(kT, values.size()) {
    tokens = values;
    EXPECT_EQ(cudaMemcpy(device.data(), values.data(), device.bytes(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  [[nodiscard]] std::size_t count() const {
    return codes.size() + numbers.size() + tokens.size();  // one of them
  }
  [[nodiscard]] View on_host() {
    View view{};
    view.data = type == kN   ? static_cast<void*>(codes.data())
                : type == kT ? static_cast<void*>(tokens.data())
                             : numbers.data();
    return filled(view);
  }
  [[nodiscard]] View on_device() {
    View view{};
    view.data = device.data();
    return filled(view);
  }
  void upload() {
    std::vector<__nv_bfloat16> narrow(numbers.size());
    std::transform(numbers.begin(), numbers.end(), narrow.begin(),
                   [](float value) { return __float2bfloat16(value); });
    EXPECT_EQ(cudaMemcpy(device.data(), narrow.data(), device.bytes(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  template <typename T>
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> values(device.bytes() / sizeof(T));
    EXPECT_EQ(cudaMemcpy(values.data(), device.data(), device.bytes(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  View filled(View view) {
    view.count = static_cast<std::int64_t>(count());
    view.type = type;
    return view;
  }
};

class CudaNarrow : public testing::Test {
 protected:
  void SetUp() override {
    int major = 0;
    int minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    if (10 * major + minor < 89) {
      GTEST_SKIP() << "no fp8 units";
    }
    role.works.emplace_back();
    program.roles.push_back(role);
  }

  void run(Kernel kernel, const std::vector<std::int64_t>& dims, std::vector<Operand*> operands) {
    Work work{kernel, {}, Flop(0), Bytes(0)};
    std::copy(dims.begin(), dims.end(), work.dims.begin());
    std::vector<View> host;
    std::vector<View> device;
    for (Operand* operand : operands) {
      host.push_back(operand->on_host());
      device.push_back(operand->on_device());
      device.back().buffer = BufferId(static_cast<std::uint32_t>(device.size() - 1));
    }
    HostCounts counts(role_of_counts());
    if (kernel == Kernel::kExpertNarrowMatmul) {
      counts.mirror(device[5], nullptr);
    }
    cpu::run_kernel<float>({.program = &program, .rank = Rank(0), .settings = {}}, work, host);
    run_kernel({.program = &program,
                .matmuls = &matmuls,
                .matmul_workspace = workspace.data(),
                .counts = &counts,
                .lanes = &lanes},
               work, device);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  Operand random(std::size_t count, float deviation) {
    Operand operand(kC, count);
    std::normal_distribution<float> normal(0, deviation);
    std::uniform_int_distribution<int> octave(-30, 3);
    for (float& value : operand.numbers) {
      value = __bfloat162float(__float2bfloat16(std::ldexp(normal(engine), octave(engine))));
    }
    operand.numbers[1] = 0;
    operand.upload();
    return operand;
  }

  // [rows, columns] in codes both ways, each alone and together, and their scale.
  struct Cast {
    Operand scale, rows, turned;
  };
  Cast cast(Operand& x, std::int64_t rows, std::int64_t columns, std::int64_t gradient) {
    Cast made{Operand(kM, 1), Operand(kN, x.count()), Operand(kN, x.count())};
    Operand alone(kN, x.count());
    run(Kernel::kNarrowScale, {rows * columns, gradient}, {&x, &made.scale});
    EXPECT_EQ(made.scale.download<float>(), made.scale.numbers);
    run(Kernel::kNarrowBoth, {rows, columns, gradient},
        {&x, &made.scale, &made.rows, &made.turned});
    EXPECT_EQ(made.rows.download<std::uint8_t>(), made.rows.codes);
    EXPECT_EQ(made.turned.download<std::uint8_t>(), made.turned.codes);
    run(Kernel::kNarrowCast, {rows, columns, gradient}, {&x, &made.scale, &alone});
    EXPECT_EQ(alone.download<std::uint8_t>(), made.rows.codes);
    run(Kernel::kNarrowTurned, {rows, columns, gradient}, {&x, &made.scale, &alone});
    EXPECT_EQ(alone.download<std::uint8_t>(), made.turned.codes);
    return made;
  }

  // The same of experts' rows, of which there is room for more.
  Cast cast_experts(Operand& x, Operand& counts, std::int64_t senders, std::int64_t columns,
                    std::int64_t gradient) {
    const auto experts = static_cast<std::int64_t>(counts.count()) / senders;
    const auto room = static_cast<std::int64_t>(x.count()) / columns;
    const auto width = static_cast<std::size_t>(columns * narrow_width(room, experts));
    const std::vector<std::int64_t> dims = {room, columns, gradient, senders, experts};
    Cast made{Operand(kM, 1), Operand(kN, x.count()), Operand(kN, width)};
    run(Kernel::kExpertNarrowScale, dims, {&x, &counts, &made.scale});
    EXPECT_EQ(made.scale.download<float>(), made.scale.numbers);
    run(Kernel::kExpertNarrowBoth, dims, {&x, &made.scale, &counts, &made.rows, &made.turned});
    EXPECT_EQ(made.rows.download<std::uint8_t>(), made.rows.codes);
    EXPECT_EQ(made.turned.download<std::uint8_t>(), made.turned.codes);
    Operand rows(kN, x.count());
    run(Kernel::kExpertNarrowCast, dims, {&x, &made.scale, &counts, &rows});
    EXPECT_EQ(rows.download<std::uint8_t>(), made.rows.codes);
    Operand turned(kN, width);
    run(Kernel::kExpertNarrowTurned, dims, {&x, &made.scale, &counts, &turned});
    EXPECT_EQ(turned.download<std::uint8_t>(), made.turned.codes);
    return made;
  }

  // What the device has beside what the reference has.
  static void expect_near(const Operand& c) {
    std::vector<float> got;
    if (c.type == kM) {
      got = c.download<float>();
    } else {
      for (const __nv_bfloat16 value : c.download<__nv_bfloat16>()) {
        got.push_back(__bfloat162float(value));
      }
    }
    float largest = 0;
    float worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(c.numbers[i]));
      worst = std::max(worst, std::abs(got[i] - c.numbers[i]));
    }
    EXPECT_LT(worst / largest, 8e-3);
  }

  // A role with one product of experts, so that its counts come to the host.
  static const Program& role_of_counts() {
    static const Program kRole = [] {
      Program made;
      made.works.push_back({Kernel::kExpertNarrowMatmul, {}, Flop(0), Bytes(0)});
      Op op;
      op.kind = Compute{0};
      op.operands = {0, 6};
      for (std::uint32_t i = 0; i < 6; ++i) {
        made.operands.push_back({BufferId(i), kNoGroup, 0, 1});
        made.buffers.push_back({0, -1, -1, 1024, kT, false});
      }
      made.ops.push_back(op);
      return made;
    }();
    return kRole;
  }

  std::mt19937 engine{5};
  Program role;
  StepProgram program;
  MatmulLibrary matmuls;
  Lanes lanes;
  DeviceBytes workspace{MatmulLibrary::kWorkspaceBytes, "workspace"};
};

}  // namespace trireme::runtime::cuda
