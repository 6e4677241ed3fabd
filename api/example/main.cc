// The best layout of a model on growing clusters, and what half the network would cost there.
#include <trireme/trireme.h>
#include <cstdio>
#include <string>

int main(int count, char** words) {
  namespace api = trireme::api;
  const std::string model = count > 1 ? words[1] : "llama-3.1-8b";
  try {
    for (const int nodes : {1, 2, 4}) {
      api::Job job;
      job.model = model;
      job.cluster = "dgx-h100x" + std::to_string(nodes);
      job.global_batch = 256;
      const api::Plan plan = api::plan(job);
      if (!plan.best) {
        std::printf("%d GPUs: nothing fits\n", 8 * nodes);
        continue;
      }
      api::WhatIfOptions half;
      half.layout.layout = plan.best->layout.short_form;
      half.vary = {"nic_bandwidth=0.5x"};
      half.keep_layout = true;
      const api::WhatIf answer = api::whatif(job, half);
      std::printf(
          "%d GPUs: %s, %.2f s a step, %.1f GiB; with half the network %.2f times as long\n",
          8 * nodes, plan.best->layout.short_form.c_str(), plan.best->time.step_seconds,
          plan.best->memory.peak_allocated_gib, answer.cases.front().step_ratio);
    }
  } catch (const api::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
