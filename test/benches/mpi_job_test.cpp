// The manifests for Kubeflow's MPI operator, against the part of its schema that they use.

#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include "sim_engine/config/yaml_document.h"

namespace kernbench::test::mpi_job_test {

namespace {

using Catch::Contains;
using Errors = std::vector<std::string>;

// Describes a value, as an OpenAPI schema without additional properties does.
struct Schema {
  enum class Type { string, integer, boolean, quantity, array, object };
  Type type = Type::string;
  std::map<std::string, Schema> properties = {};
  std::vector<std::string> required = {};
  std::vector<Schema> items = {};  // one, of an array
  std::vector<std::string> choices = {};
};

const Schema kString{.type = Schema::Type::string};
const Schema kInteger{.type = Schema::Type::integer};
const Schema kBoolean{.type = Schema::Type::boolean};
const Schema kQuantity{.type = Schema::Type::quantity};  // of Kubernetes: 8, 500m, 16Gi

Schema one_of(std::vector<std::string> choices) {
  return {.type = Schema::Type::string, .choices = std::move(choices)};
}
Schema array_of(Schema item) {
  return {.type = Schema::Type::array, .items = {std::move(item)}};
}
Schema object(std::map<std::string, Schema> properties, std::vector<std::string> required = {}) {
  return {.type = Schema::Type::object,
          .properties = std::move(properties),
          .required = std::move(required)};
}

// k8s.io/api/core/v1, Container and PodSpec.
Schema container() {
  return object(
      {{"name", kString},
       {"image", kString},
       {"imagePullPolicy", one_of({"Always", "IfNotPresent", "Never"})},
       {"command", array_of(kString)},
       {"args", array_of(kString)},
       {"securityContext", object({{"runAsUser", kInteger}})},
       {"readinessProbe", object({{"tcpSocket", object({{"port", kInteger}}, {"port"})}})},
       {"resources", object({{"limits", object({{"cpu", kQuantity}, {"memory", kQuantity}})}})},
       {"volumeMounts",
        array_of(object({{"name", kString}, {"mountPath", kString}}, {"name", "mountPath"}))}},
      {"name"});
}
Schema pod() {
  const Schema claim = object({{"claimName", kString}}, {"claimName"});
  return object({{"securityContext", object({{"fsGroup", kInteger}})},
                 {"containers", array_of(container())},
                 {"volumes", array_of(object({{"name", kString}, {"persistentVolumeClaim", claim}},
                                             {"name"}))}},
                {"containers"});
}

// The types of mpijobs.kubeflow.org, version v2beta1, of the operator (pkg/apis/kubeflow/v2beta1):
// github.com/kubeflow/mpi-operator, manifests/base/kubeflow.org_mpijobs.yaml.
Schema replica() {
  return object({{"replicas", kInteger},
                 {"restartPolicy", one_of({"Always", "OnFailure", "Never", "ExitCode"})},
                 {"template", object({{"spec", pod()}}, {"spec"})}},
                {"template"});
}
Schema mpi_job() {
  const Schema policy = object({{"activeDeadlineSeconds", kInteger},
                                {"backoffLimit", kInteger},
                                {"cleanPodPolicy", one_of({"None", "Running", "All"})},
                                {"ttlSecondsAfterFinished", kInteger}});
  const Schema spec = object(
      {{"slotsPerWorker", kInteger},
       {"runLauncherAsWorker", kBoolean},
       {"launcherCreationPolicy", one_of({"AtStartup", "WaitForWorkersReady"})},
       {"sshAuthMountPath", kString},
       {"mpiImplementation", one_of({"OpenMPI", "Intel", "MPICH"})},
       {"runPolicy", policy},
       {"mpiReplicaSpecs", object({{"Launcher", replica()}, {"Worker", replica()}}, {"Launcher"})}},
      {"mpiReplicaSpecs"});
  return object({{"apiVersion", one_of({"kubeflow.org/v2beta1"})},
                 {"kind", one_of({"MPIJob"})},
                 {"metadata", object({{"name", kString}}, {"name"})},
                 {"spec", spec}},
                {"apiVersion", "kind", "metadata", "spec"});
}

// k8s.io/api/core/v1, PersistentVolumeClaim.
Schema volume_claim() {
  const Schema mode =
      one_of({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"});
  const Schema spec = object(
      {{"accessModes", array_of(mode)},
       {"storageClassName", kString},
       {"resources", object({{"requests", object({{"storage", kQuantity}}, {"storage"})}})}});
  return object({{"apiVersion", one_of({"v1"})},
                 {"kind", one_of({"PersistentVolumeClaim"})},
                 {"metadata", object({{"name", kString}}, {"name"})},
                 {"spec", spec}},
                {"apiVersion", "kind", "metadata", "spec"});
}

bool is_integer(const YamlNode& node) {
  std::int64_t value = 0;
  const char* const end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  return node.kind == YamlNode::Kind::plain && error == std::errc() && stop == end;
}

// YAML takes it for a text.
bool is_string(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::quoted) return true;
  const bool is_word = node.text == "true" || node.text == "false" || node.text == "null";
  return node.kind == YamlNode::Kind::plain && !is_integer(node) && !is_word;
}

bool is_quantity(const YamlNode& node) {
  const std::size_t digits = node.text.find_first_not_of("0123456789");
  const std::string suffix = digits == std::string::npos ? "" : node.text.substr(digits);
  static const std::vector<std::string> kSuffixes = {"", "m", "k", "M", "G", "Ki", "Mi", "Gi"};
  return digits != 0 && std::ranges::find(kSuffixes, suffix) != kSuffixes.end();
}

void validate(const YamlNode& node, const Schema& schema, Errors& errors);

void validate_object(const YamlNode& node, const Schema& schema, Errors& errors) {
  for (const std::string& key : schema.required) {
    if (node.find(key) == nullptr) errors.push_back(make_path(node) + ": " + key + " is missing");
  }
  for (const YamlNode* child : node.children) {
    const auto property = schema.properties.find(child->key);
    if (property == schema.properties.end()) {
      errors.push_back(make_path(*child) + ": unknown");
    } else {
      validate(*child, property->second, errors);
    }
  }
}

bool has_type(const YamlNode& node, Schema::Type type) {
  switch (type) {
    case Schema::Type::string:
      return is_string(node);
    case Schema::Type::integer:
      return is_integer(node);
    case Schema::Type::boolean:
      return node.kind == YamlNode::Kind::plain && (node.text == "true" || node.text == "false");
    case Schema::Type::quantity:
      return is_quantity(node);
    case Schema::Type::array:
      return node.kind == YamlNode::Kind::list;
    case Schema::Type::object:
      return node.kind == YamlNode::Kind::map;
  }
  return false;
}

void validate(const YamlNode& node, const Schema& schema, Errors& errors) {
  if (!has_type(node, schema.type)) {
    errors.push_back(make_path(node) + ": of another type");
    return;
  }
  if (schema.type == Schema::Type::object) return validate_object(node, schema, errors);
  if (schema.type == Schema::Type::array) {
    for (const YamlNode* item : node.children) validate(*item, schema.items[0], errors);
  }
  if (!schema.choices.empty() &&
      std::ranges::find(schema.choices, node.text) == schema.choices.end()) {
    errors.push_back(make_path(node) + ": '" + node.text + "' is not a choice");
  }
}

Errors errors_of(const YamlDocument& document, const Schema& schema = mpi_job()) {
  Errors errors;
  validate(document.root(), schema, errors);
  return errors;
}

YamlDocument manifest(const std::string& name) {
  return YamlDocument::load(KERNBENCH_ROOT "/benches/" + name);
}

const YamlNode& pod_of(const YamlDocument& job, const std::string& replica) {
  const YamlNode& replicas = *job.root().find("spec")->find("mpiReplicaSpecs");
  return *replicas.find(replica)->find("template")->find("spec");
}

const YamlNode& container_of(const YamlDocument& job, const std::string& replica) {
  return *pod_of(job, replica).find("containers")->children[0];
}

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(KERNBENCH_ROOT "/" + path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the manifests are MPIJobs of the published schema", "[mpi_job]") {
  for (const char* const name : {"benchmark.yaml", "test.yaml"}) {
    INFO(name);
    CHECK(errors_of(manifest(name)) == Errors{});
  }
}

TEST_CASE("the pod of the first process alone mounts the volume, and may write into it",
          "[mpi_job]") {
  const YamlDocument claim = manifest("results.yaml");
  CHECK(errors_of(claim, volume_claim()) == Errors{});
  CHECK(claim.root().find("spec")->find("accessModes")->children[0]->text == "ReadWriteOnce");
  const YamlDocument job = manifest("benchmark.yaml");
  CHECK(job.root().find("spec")->find("runLauncherAsWorker")->text == "true");
  const YamlNode& launcher = pod_of(job, "Launcher");
  CHECK(launcher.find("volumes")
            ->children[0]
            ->find("persistentVolumeClaim")
            ->find("claimName")
            ->text == claim.root().find("metadata")->find("name")->text);
  CHECK(launcher.find("securityContext")->find("fsGroup")->text ==
        container_of(job, "Launcher").find("securityContext")->find("runAsUser")->text);
  CHECK(pod_of(job, "Worker").find("volumes") == nullptr);
}

TEST_CASE("a job outlives slow nodes: the launcher waits for every sshd, and has another try",
          "[mpi_job]") {
  const std::string recipe = text_of_file("benches/Containerfile");
  for (const char* const name : {"benchmark.yaml", "test.yaml"}) {
    INFO(name);
    const YamlDocument job = manifest(name);
    const YamlNode& spec = *job.root().find("spec");
    CHECK(spec.find("launcherCreationPolicy")->text == "WaitForWorkersReady");
    CHECK(spec.find("runPolicy")->find("backoffLimit")->text != "0");
    const YamlNode& probe = *container_of(job, "Worker").find("readinessProbe");
    CHECK_THAT(recipe, Contains("'Port " + probe.find("tcpSocket")->find("port")->text + "'"));
  }
}

TEST_CASE("the image has what the manifests name", "[mpi_job]") {
  const std::string recipe = text_of_file("benches/Containerfile");
  for (const char* const name : {"benchmark.yaml", "test.yaml"}) {
    INFO(name);
    const YamlDocument job = manifest(name);
    for (const char* const replica : {"Launcher", "Worker"}) {
      const YamlNode& container = container_of(job, replica);
      CHECK_THAT(recipe, Contains("-t " + container.find("image")->text + " "));
      CHECK(container.find("imagePullPolicy")->text == "IfNotPresent");
      const std::string user = container.find("securityContext")->find("runAsUser")->text;
      CHECK_THAT(recipe, Contains("--uid " + user + " mpiuser"));
    }
    const std::string keys = job.root().find("spec")->find("sshAuthMountPath")->text;
    CHECK_THAT(recipe, Contains("HostKey " + keys + "/") && Contains("IdentityFile " + keys + "/"));
    const auto& sshd = container_of(job, "Worker").find("args")->children;
    CHECK_THAT(recipe, Contains(">" + sshd.back()->text + " "));
  }
}

TEST_CASE("the test job runs the tests of the image", "[mpi_job]") {
  const std::string script =
      container_of(manifest("test.yaml"), "Launcher").find("args")->children[0]->text;
  CHECK_THAT(script, Contains("build/mpi/test/runner/kernbench_run_tests") &&
                         Contains("build/mpi/test/suites.txt"));
  CHECK_THAT(text_of_file("benches/Containerfile"), Contains("cmake --build --preset mpi"));
  CHECK_THAT(text_of_file("CMakePresets.json"), Contains("\"mpi\""));
}

TEST_CASE("mpirun starts a process in the launcher and one in each worker", "[mpi_job]") {
  const YamlDocument job = manifest("benchmark.yaml");
  const YamlNode& replicas = *job.root().find("spec")->find("mpiReplicaSpecs");
  const std::string script = container_of(job, "Launcher").find("args")->children[0]->text;
  const int workers = std::stoi(replicas.find("Worker")->find("replicas")->text);
  CHECK_THAT(script, Contains("mpirun -n " + std::to_string(workers + 1) + " "));
}

TEST_CASE("what is no MPIJob is told", "[mpi_job]") {
  const YamlDocument wrong = YamlDocument::parse(R"(
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: 3}
spec:
  slotsPerWorker: two
  cleanPodPolicy: Running
  mpiReplicaSpecs:
    Worker: {template: {spec: {containers: [{image: a, args: [-n, 2]}]}}}
)",
                                                 "job.yaml");
  CHECK(errors_of(wrong) ==
        Errors{"apiVersion: 'kubeflow.org/v1' is not a choice", "metadata.name: of another type",
               "spec.slotsPerWorker: of another type", "spec.cleanPodPolicy: unknown",
               "spec.mpiReplicaSpecs: Launcher is missing",
               "spec.mpiReplicaSpecs.Worker.template.spec.containers[0]: name is missing",
               "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].args[1]: of another type"});
}

}  // namespace kernbench::test::mpi_job_test
