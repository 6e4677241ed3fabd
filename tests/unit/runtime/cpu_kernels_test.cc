// Every kernel's backward against central differences of its forward, in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/random.h"
#include "runtime/cpu/attention.h"
#include "runtime/cpu/elementwise.h"
#include "runtime/cpu/loss.h"
#include "runtime/cpu/matmul.h"
#include "runtime/cpu/norm.h"
#include "runtime/cpu/optimizer.h"

namespace trireme::runtime::cpu {
namespace {

using Vector = std::vector<double>;

Vector random_vector(std::size_t count, const char* name) {
  Vector x(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = random_normal(random_key(7, name), i);
  }
  return x;
}

// sum(weights * f(x)) differentiated numerically by each x[i] must equal `gradient`.
void expect_gradient(Vector x, const Vector& weights, const std::function<Vector(const Vector&)>& f,
                     const Vector& gradient) {
  ASSERT_EQ(x.size(), gradient.size());
  const double step = 1e-5;
  const auto value = [&] {
    const Vector y = f(x);
    EXPECT_EQ(y.size(), weights.size());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += y[i] * weights[i];
    }
    return sum;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + step;
    const double above = value();
    x[i] = kept - step;
    const double below = value();
    x[i] = kept;
    EXPECT_NEAR((above - below) / (2 * step), gradient[i], 1e-7 * (1 + std::abs(gradient[i])))
        << "entry " << i;
  }
}

TEST(CpuMatmul, AllTranspositionsAgreeWithTheLoop) {
  const std::int64_t m = 3;
  const std::int64_t n = 4;
  const std::int64_t k = 5;
  const Vector a = random_vector(15, "a");
  const Vector b = random_vector(20, "b");
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      Vector c(12, 1.0);
      matmul<double>({.m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb}, a.data(),
                     b.data(), c.data(), true);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 1;
          for (std::int64_t l = 0; l < k; ++l) {
            const auto ai = static_cast<std::size_t>(ta ? l * m + i : i * k + l);
            const auto bi = static_cast<std::size_t>(tb ? j * k + l : l * n + j);
            sum += a[ai] * b[bi];
          }
          EXPECT_NEAR(c[static_cast<std::size_t>(i * n + j)], sum, 1e-13);
        }
      }
    }
  }
}

TEST(CpuNorm, BackwardIsTheDerivative) {
  for (const bool centred : {false, true}) {
    const NormShape shape{.rows = 3, .width = 6, .centred = centred};
    const Vector x = random_vector(18, "x");
    const Vector weight = random_vector(6, "w");
    const Vector bias = random_vector(6, "b");
    const Vector dy = random_vector(18, "dy");
    const double* b = centred ? bias.data() : nullptr;
    Vector dx(18);
    Vector dweight(6);
    Vector dbias(6);
    norm_backward<double>(shape, x.data(), weight.data(), dy.data(), dx.data(), dweight.data(),
                          dbias.data());
    const auto run = [&](const Vector& in, const Vector& w, const double* shift) {
      Vector y(18);
      norm_forward<double>(shape, in.data(), w.data(), shift, y.data(), nullptr, nullptr);
      return y;
    };
    expect_gradient(
        x, dy, [&](const Vector& v) { return run(v, weight, b); }, dx);
    expect_gradient(
        weight, dy, [&](const Vector& v) { return run(x, v, b); }, dweight);
    if (centred) {
      expect_gradient(
          bias, dy, [&](const Vector& v) { return run(x, weight, v.data()); }, dbias);
    }
  }
}

TEST(CpuRotary, BackwardIsTheInverseAndKeepsTheNorm) {
  RotaryShape shape{.rows = 4,
                    .heads = 2,
                    .head_dim = 6,
                    .head_stride = 6,
                    .stride = 12,
                    .length = 2,
                    .first_position = 3};
  const Vector x = random_vector(48, "x");
  const Vector dy = random_vector(48, "dy");
  for (const bool neighbours : {false, true}) {
    for (const double scale : {1.0, 1.3}) {
      const RotaryTable table{{1.0, 0.3}, scale, neighbours};  // two of three pairs
      Vector dx = dy;
      rotary<double>(shape, table, dx.data(), true);
      const auto run = [&](Vector v) {
        rotary<double>(shape, table, v.data(), false);
        return v;
      };
      expect_gradient(x, dy, run, dx);
      EXPECT_NE(run(x)[0], x[0]);
      EXPECT_EQ(run(x)[4], x[4]) << "the rest of a head stays";
      if (scale == 1) {
        EXPECT_NEAR(square_sum<double>(48, run(x).data()), square_sum<double>(48, x.data()), 1e-10);
      }
    }
  }
}

TEST(CpuRotary, NeighboursTurnAsHalvesOfTheirOrder) {
  RotaryShape shape{
      .rows = 1, .heads = 1, .head_dim = 4, .head_stride = 4, .stride = 4, .length = 8};
  shape.first_position = 5;
  const Vector x = {1, 2, 3, 4};
  Vector halves = {x[0], x[2], x[1], x[3]};
  Vector neighbours = x;
  rotary<double>(shape, {{1.0, 0.1}, 1, false}, halves.data(), false);
  rotary<double>(shape, {{1.0, 0.1}, 1, true}, neighbours.data(), false);
  EXPECT_EQ(neighbours, (Vector{halves[0], halves[2], halves[1], halves[3]}));
}

TEST(CpuLatentHeads, BackwardIsTheDerivative) {
  const LatentShape shape{.heads = 2, .nope = 3, .rope = 4, .value = 2};
  const RotaryShape positions{.rows = 3, .length = 3, .first_position = 2};
  const RotaryTable table{{1.0, 0.2}, 1.1, true};
  const Vector dqkv = random_vector(3 * 32, "dqkv");
  const Vector q = random_vector(3 * 14, "q");
  const Vector kv = random_vector(3 * 10, "kv");
  const Vector key = random_vector(3 * 4, "key");
  for (const RotaryTable* turned : {&table, static_cast<const RotaryTable*>(nullptr)}) {
    Vector dq(q.size());
    Vector dkv(kv.size());
    Vector dkey(key.size());
    latent_heads_backward<double>(shape, positions, turned, dqkv.data(), dq.data(), dkv.data(),
                                  dkey.data());
    const auto run = [&](const Vector& a, const Vector& b, const Vector& c) {
      Vector qkv(dqkv.size());
      latent_heads_forward<double>(shape, positions, turned, a.data(), b.data(), c.data(),
                                   qkv.data());
      return qkv;
    };
    expect_gradient(
        q, dqkv, [&](const Vector& v) { return run(v, kv, key); }, dq);
    expect_gradient(
        kv, dqkv, [&](const Vector& v) { return run(q, v, key); }, dkv);
    expect_gradient(
        key, dqkv, [&](const Vector& v) { return run(q, kv, v); }, dkey);
  }
}

constexpr Activation kActivations[] = {Activation::kPlain,    Activation::kSilu, Activation::kGelu,
                                       Activation::kGeluTanh, Activation::kRelu, Activation::kRelu2,
                                       Activation::kQuickGelu};

TEST(CpuActivations, BackwardIsTheDerivative) {
  const Vector x = random_vector(24, "x");
  const Vector dy = random_vector(12, "dy");
  const Vector dz = random_vector(24, "dz");
  for (const Activation act : kActivations) {
    SCOPED_TRACE(to_string(act));
    Vector dx(24);
    swiglu_backward<double>(3, 4, act, x.data(), dy.data(), dx.data());
    expect_gradient(
        x, dy,
        [&](const Vector& v) {
          Vector y(12);
          swiglu_forward<double>(3, 4, act, v.data(), y.data());
          return y;
        },
        dx);
    gelu_backward<double>(24, act, x.data(), dz.data(), dx.data());
    expect_gradient(
        x, dz,
        [&](const Vector& v) {
          Vector y(24);
          gelu_forward<double>(24, act, v.data(), y.data());
          return y;
        },
        dx);
  }
}

// By hand: of 1 and of -1.
TEST(CpuActivations, AreThoseOfTheirNames) {
  const auto of = [](Activation act, double x) {
    double y = 0;
    gelu_forward<double>(1, act, &x, &y);
    return y;
  };
  EXPECT_NEAR(of(Activation::kSilu, 1), 0.7310585786, 1e-9);
  EXPECT_NEAR(of(Activation::kGelu, 1), 0.8413447461, 1e-9);
  EXPECT_NEAR(of(Activation::kGeluTanh, 1), 0.8411919906, 1e-9);
  EXPECT_EQ(of(Activation::kPlain, 1), of(Activation::kGeluTanh, 1));
  EXPECT_EQ(of(Activation::kRelu, -1), 0);
  EXPECT_EQ(of(Activation::kRelu2, 3), 9);
  EXPECT_NEAR(of(Activation::kQuickGelu, 1), 0.8457957659, 1e-9);
}

TEST(CpuEmbedding, ShardsAddUpToTheWholeTable) {
  const std::vector<std::int32_t> tokens = {0, 3, 5, 3};
  const Vector table = random_vector(12, "table");
  Vector whole(8);
  Vector left(8);
  Vector right(8);
  embedding_forward<double>({.rows = 4, .width = 2, .first_row = 0, .table_rows = 6}, tokens.data(),
                            table.data(), whole.data());
  embedding_forward<double>({.rows = 4, .width = 2, .first_row = 0, .table_rows = 3}, tokens.data(),
                            table.data(), left.data());
  embedding_forward<double>({.rows = 4, .width = 2, .first_row = 3, .table_rows = 3}, tokens.data(),
                            table.data() + 6, right.data());
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(whole[i], left[i] + right[i]);
  }
  Vector dtable(12);
  const Vector dy = random_vector(8, "dy");
  embedding_backward<double>({.rows = 4, .width = 2, .first_row = 0, .table_rows = 6},
                             tokens.data(), dy.data(), dtable.data());
  EXPECT_DOUBLE_EQ(dtable[6], dy[2] + dy[6]);
  EXPECT_EQ(dtable[2], 0.0);
}

struct AttentionCase {
  AttentionShape shape;
  Vector q, k, v, dout;
};

AttentionCase attention_case(std::int64_t window, std::int64_t offset) {
  AttentionCase c;
  c.shape = {.batch = 2,
             .heads = 4,
             .kv_heads = 2,
             .query_length = 3,
             .key_length = 3 + offset,
             .query_offset = offset,
             .qk_dim = 4,
             .v_dim = 4,
             .window = window,
             .causal = true,
             .scale = 0.5};
  c.q = random_vector(2 * 3 * 16, "q");
  c.k = random_vector(static_cast<std::size_t>(2 * (3 + offset) * 8), "k");
  c.v = random_vector(static_cast<std::size_t>(2 * (3 + offset) * 8), "v");
  c.dout = random_vector(2 * 3 * 16, "dout");
  return c;
}

Vector attend(const AttentionShape& s, const Vector& q, const Vector& k, const Vector& v,
              Vector* lse) {
  Vector out(q.size());
  Vector statistics(static_cast<std::size_t>(s.batch * s.heads * s.query_length));
  attention_forward<double>(s, {q.data(), 16}, {k.data(), 8}, {v.data(), 8}, {out.data(), 16},
                            statistics.data());
  if (lse != nullptr) {
    *lse = statistics;
  }
  return out;
}

TEST(CpuAttention, BackwardIsTheDerivative) {
  for (const auto& [window, offset] : {std::pair{0, 0}, {2, 0}, {0, 2}}) {
    const AttentionCase c = attention_case(window, offset);
    Vector lse;
    const Vector out = attend(c.shape, c.q, c.k, c.v, &lse);
    Vector dq(c.q.size());
    Vector dk(c.k.size());
    Vector dv(c.v.size());
    attention_backward<double>(c.shape, {c.q.data(), 16}, {c.k.data(), 8}, {c.v.data(), 8},
                               {out.data(), 16}, lse.data(), {c.dout.data(), 16}, {dq.data(), 16},
                               {dk.data(), 8}, {dv.data(), 8});
    expect_gradient(
        c.q, c.dout, [&](const Vector& q) { return attend(c.shape, q, c.k, c.v, nullptr); }, dq);
    expect_gradient(
        c.k, c.dout, [&](const Vector& k) { return attend(c.shape, c.q, k, c.v, nullptr); }, dk);
    expect_gradient(
        c.v, c.dout, [&](const Vector& v) { return attend(c.shape, c.q, c.k, v, nullptr); }, dv);
  }
}

TEST(CpuHeadNorm, BackwardIsTheDerivative) {
  const HeadNormShape shape{.rows = 2, .query_heads = 2, .kv_heads = 1, .head_dim = 4};
  const Vector x = random_vector(32, "x");
  const Vector dy = random_vector(32, "dy");
  const Vector wq = random_vector(4, "wq");
  const Vector wk = random_vector(4, "wk");
  Vector dx = dy;  // in place, as the contract allows
  Vector dwq(4);
  Vector dwk(4);
  head_norm_backward<double>(shape, dx.data(), x.data(), wq.data(), wk.data(), dx.data(),
                             dwq.data(), dwk.data());
  const auto run = [&](const Vector& in, const Vector& q, const Vector& k) {
    Vector y(32);
    Vector reciprocal(6);
    head_norm_forward<double>(shape, in.data(), q.data(), k.data(), y.data(), reciprocal.data());
    return y;
  };
  expect_gradient(
      x, dy, [&](const Vector& v) { return run(v, wq, wk); }, dx);
  expect_gradient(
      wq, dy, [&](const Vector& v) { return run(x, v, wk); }, dwq);
  expect_gradient(
      wk, dy, [&](const Vector& v) { return run(x, wq, v); }, dwk);
}

TEST(CpuPosition, RowsWrapAtTheSequence) {
  const PositionShape shape{.rows = 3, .width = 2, .length = 4, .first_row = 2};
  const Vector table = random_vector(8, "table");
  Vector y(6);
  position_forward<double>(shape, table.data(), y.data());
  EXPECT_EQ(y[0], table[4]);
  EXPECT_EQ(y[4], table[0]);
  Vector dtable(8);
  position_backward<double>(shape, y.data(), dtable.data());
  EXPECT_EQ(dtable[4], y[0]);
  EXPECT_EQ(dtable[2], 0.0);
}

// Loss summed over rows, from `shards` equal shards of the vocabulary; also the gradient at
// `scale`.
double sharded_loss(const Vector& logits, const std::vector<std::int32_t>& targets,
                    std::int64_t shards, Vector* gradient) {
  const std::int64_t width = 6 / shards;
  Vector global(3, -1e300), sums(3), target(3);
  std::vector<Vector> parts(static_cast<std::size_t>(shards),
                            Vector(static_cast<std::size_t>(3 * width)));
  std::vector<Vector> maxima(static_cast<std::size_t>(shards), Vector(3));
  std::vector<Vector> part_sums = maxima;
  const auto shape = [&](std::size_t s) {
    return LogitShape{
        .rows = 3, .width = width, .first = static_cast<std::int64_t>(s) * width, .vocabulary = 5};
  };
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const auto w = static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < 3 * w; ++i) {
      parts[s][i] = logits[i / w * 6 + s * w + i % w];
    }
    Vector t(3);
    logit_statistics<double>(shape(s), parts[s].data(), targets.data(), maxima[s].data(),
                             part_sums[s].data(), t.data());
    for (std::size_t i = 0; i < 3; ++i) {
      global[i] = std::max(global[i], maxima[s][i]);
      target[i] += t[i];
    }
  }
  for (std::size_t s = 0; s < parts.size(); ++s) {
    statistics_rescale<double>(3, maxima[s].data(), global.data(), part_sums[s].data());
    for (std::size_t i = 0; i < 3; ++i) {
      sums[i] += part_sums[s][i];
    }
  }
  for (std::size_t s = 0; gradient != nullptr && s < parts.size(); ++s) {
    loss_gradient<double>(shape(s), parts[s].data(), targets.data(), global.data(), sums.data(),
                          0.25);
    const auto w = static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < 3 * w; ++i) {
      (*gradient)[i / w * 6 + s * w + i % w] = parts[s][i];
    }
  }
  return loss_sum<double>(3, global.data(), sums.data(), target.data());
}

TEST(CpuLoss, GradientIsTheDerivativeAndShardsAgree) {
  const std::vector<std::int32_t> targets = {1, 4, 0};
  const Vector logits = random_vector(18, "logits");
  Vector gradient(18);
  const double loss = sharded_loss(logits, targets, 1, &gradient);
  expect_gradient(
      logits, {0.25}, [&](const Vector& x) { return Vector{sharded_loss(x, targets, 1, nullptr)}; },
      gradient);
  EXPECT_EQ(gradient[5], 0.0);                   // the padding column
  for (const std::int64_t shards : {2, 3, 6}) {  // of 6 shards the last is padding alone
    Vector sharded(18);
    EXPECT_NEAR(sharded_loss(logits, targets, shards, &sharded), loss, 1e-14);
    for (std::size_t i = 0; i < 18; ++i) {
      EXPECT_NEAR(sharded[i], gradient[i], 1e-15);
    }
  }
}

TEST(CpuAdam, FirstStepMovesByTheLearningRateAndDecays) {
  // After one step both corrected moments are g and g^2, so the direction is g/|g| = sign(g).
  Vector weight = {1.0, -2.0};
  Vector m(2), v(2);
  const Vector gradient = {0.3, -4.0};
  adam_update<double>({.learning_rate = 0.1, .epsilon = 0.0, .weight_decay = 0.5}, 2,
                      gradient.data(), weight.data(), m.data(), v.data());
  EXPECT_NEAR(weight[0], 1.0 - 0.1 * (1.0 + 0.5), 1e-14);
  EXPECT_NEAR(weight[1], -2.0 - 0.1 * (-1.0 - 1.0), 1e-14);
}

}  // namespace
}  // namespace trireme::runtime::cpu
