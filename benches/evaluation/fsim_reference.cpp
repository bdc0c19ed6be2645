#include "benches/evaluation/fsim_reference.h"

#include "sim_engine/config/yaml_reader.h"

namespace kernbench::benches::evaluation {

FsimReference parse_fsim_reference(std::string_view text, const std::string& name) {
  const YamlDocument document = YamlDocument::parse(text, name);
  YamlReader reader(document);
  FsimReference reference;
  {
    YamlMap root = reader.map(document.root());
    root.integer("fsim_reference", 1, 1);
    reference.latency = root.time("latency");
    reference.devices = root.integer("devices", 1, 1 << 20);
  }
  reader.finish();
  return reference;
}

FsimReference shipped_fsim_reference() {
  return parse_fsim_reference(fsim_references().front().text, "fsim_reference.yaml");
}

}  // namespace kernbench::benches::evaluation
