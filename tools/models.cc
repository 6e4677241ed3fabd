// `trireme models`: the presets, or one model described.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "models/presets.h"
#include "models/transformer.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

struct ModelsArguments {
  std::string model;
  bool json = false;
};

Json model_json(const models::Transformer& model) {
  Json json = {{"name", model.name},
               {"parameters", models::parameter_count(model)},
               {"active_parameters", models::active_parameter_count(model)},
               {"layers", model.layers},
               {"hidden", model.hidden},
               {"heads", model.heads},
               {"kv_heads", model.kv_heads},
               {"head_dim", model.head_dim},
               {"ffn", model.ffn},
               {"vocab", model.vocab},
               {"max_sequence", model.max_sequence},
               {"tied_embeddings", model.tied_embeddings}};
  if (model.moe) {
    json["experts"] = model.moe->experts;
    json["experts_per_token"] = model.moe->experts_per_token;
    json["expert_ffn"] = model.moe->expert_ffn;
  }
  return json;
}

int run(const ModelsArguments& options, Console& console) {
  std::vector<models::Transformer> found;
  if (!options.model.empty()) {
    found.push_back(models::load_model(options.model));
  } else {
    for (const std::string& name : models::preset_names()) {
      found.push_back(models::load_model(name));
    }
  }
  if (options.json) {
    if (!options.model.empty()) {
      print_json(console, "model", model_json(found.front()));
      return kDone;
    }
    Json list = Json::array();
    for (const models::Transformer& model : found) {
      list.push_back(model_json(model));
    }
    print_json(console, "models", {{"models", list}});
    return kDone;
  }
  Table table{.head = {"model", "parameters", "active", "layers", "hidden", "heads", "kv heads",
                       "ffn", "vocab", "longest sequence"},
              .rows = {}};
  for (const models::Transformer& model : found) {
    table.rows.push_back({model.name,
                          count_text(static_cast<double>(models::parameter_count(model))),
                          count_text(static_cast<double>(models::active_parameter_count(model))),
                          std::to_string(model.layers), std::to_string(model.hidden),
                          std::to_string(model.heads), std::to_string(model.kv_heads),
                          std::to_string(model.moe ? model.moe->expert_ffn : model.ffn),
                          std::to_string(model.vocab), std::to_string(model.max_sequence)});
  }
  print_table(console, table);
  return kDone;
}

}  // namespace

void add_models_command(Command& app, Program& program) {
  auto options = std::make_shared<ModelsArguments>();
  Command* command =
      add_command(app, program, "models", "lists the model presets, or describes one model",
                  "trireme models --model llama-3.1-8b --json");
  command
      ->add_option("--model,model", options->model,
                   "a preset, a config.json or its folder, or a model file")
      ->type_name("M");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
