// Scales, codes and transposes of 8 bits on the GPU against the reference, bit for bit; and
// products of such codes.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/cpu/compute.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/run_kernel.h"

namespace trireme::runtime::cuda {
namespace {

constexpr ElementType kC = ElementType::kCompute;
constexpr ElementType kM = ElementType::kMaster;
constexpr ElementType kN = ElementType::kNarrow;

// Memory of one operand on both sides; on the host compute is float.
struct Operand {
  ElementType type;
  std::vector<float> numbers;
  std::vector<std::uint8_t> codes;
  DeviceBytes device;

  Operand(ElementType kind, std::size_t count)
      : type(kind),
        device(count * (kind == kM   ? 4
                        : kind == kC ? 2
                                     : 1),
               "operand") {
    kind == kN ? codes.resize(count) : numbers.resize(count);
  }
  [[nodiscard]] std::size_t count() const { return type == kN ? codes.size() : numbers.size(); }
  [[nodiscard]] View on_host() {
    View view{};
    view.data = type == kN ? static_cast<void*>(codes.data()) : numbers.data();
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
    }
    cpu::run_kernel<float>({.program = &program, .rank = Rank(0), .settings = {}}, work, host);
    run_kernel({.program = &program, .matmuls = &matmuls, .matmul_workspace = workspace.data()},
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

  std::mt19937 engine{5};
  Program role;
  StepProgram program;
  MatmulLibrary matmuls;
  DeviceBytes workspace{MatmulLibrary::kWorkspaceBytes, "workspace"};
};

TEST_F(CudaNarrow, CodesAndScalesAreTheReferencesBitForBit) {
  for (const auto& [rows, columns] : {std::pair{16, 16}, {128, 128}, {144, 272}, {400, 1040}}) {
    for (const std::int64_t gradient : {0, 1}) {
      for (const float deviation : {1e-12F, 3e-5F, 1.0F, 1e6F}) {
        Operand x = random(static_cast<std::size_t>(rows * columns), deviation);
        cast(x, rows, columns, gradient);
      }
    }
  }
}

TEST_F(CudaNarrow, NoNumberMakesAScaleThatIsNone) {
  Operand x = random(256, 1);
  x.numbers[77] = std::nanf("");
  x.upload();
  Operand scale(kM, 1);
  run(Kernel::kNarrowScale, {256, 0}, {&x, &scale});
  EXPECT_TRUE(std::isnan(scale.download<float>().front()));
}

// The units' own accumulator holds some 14 bits of a sum.
TEST_F(CudaNarrow, ProductsAreThoseOfTheReference) {
  constexpr std::int64_t m = 144;
  constexpr std::int64_t n = 272;
  constexpr std::int64_t k = 400;
  for (const std::int64_t gradient : {0, 1}) {
    Operand a = random(m * k, 1e-4F);
    Operand b = random(n * k, 20);
    Cast first = cast(a, m, k, gradient);
    Cast second = cast(b, n, k, 0);
    for (const ElementType type : {kC, kM}) {
      for (const std::int64_t adds : {0, 1}) {
        Operand c(type, m * n);
        run(Kernel::kNarrowMatmul, {m, n, k, 0, gradient},
            {&first.rows, &first.scale, &second.rows, &second.scale, &c});
        if (adds != 0) {
          run(Kernel::kNarrowMatmul, {m, n, k, 1, gradient},
              {&first.rows, &first.scale, &second.rows, &second.scale, &c});
        }
        std::vector<float> got;
        if (type == kM) {
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
        EXPECT_LT(worst / largest, 8e-3) << gradient << " " << adds;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::runtime::cuda
