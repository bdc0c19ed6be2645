// DeviceMesh: groups along the dimensions of a grid of ranks.

#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::device_mesh_test {
namespace {

using distributed::DeviceMesh;

TEST_CASE("a mesh of 2 x 3 has rows and columns", "[distributed][mesh]") {
  LocalWorld world(6);
  world.spawn([&](int rank) {
    const DeviceMesh mesh = world.dist.init_device_mesh("ahbm", {2, 3}, {"dp", "tp"});
    CHECK(mesh.ndim() == 2);
    CHECK(mesh.size() == 6);
    CHECK(mesh.size("dp") == 2);
    CHECK(mesh.size(-1) == 3);
    CHECK(mesh.mesh() == std::vector<int>{0, 1, 2, 3, 4, 5});
    CHECK(mesh.get_coordinate() == std::vector<int>{rank / 3, rank % 3});
    CHECK(mesh.get_local_rank("tp") == rank % 3);
    CHECK(mesh.get_local_rank(0) == rank / 3);
    const int row = rank / 3 * 3;
    CHECK(mesh.get_group("tp").ranks() == std::vector<int>{row, row + 1, row + 2});
    CHECK(mesh.get_group("dp").ranks() == std::vector<int>{rank % 3, rank % 3 + 3});
    Tensor x = world.tensor({static_cast<float>(rank)});
    world.dist.all_reduce(x, ReduceOp::sum, {.group = mesh.get_group("tp")});
    CHECK(x.item() == static_cast<float>(3 * row + 3));
    world.dist.all_reduce(x, ReduceOp::sum, {.group = mesh.get_group("dp")});
    CHECK(x.item() == 15);
  });
}

TEST_CASE("a mesh is sliced by names", "[distributed][mesh]") {
  LocalWorld world(8);
  world.spawn([&](int rank) {
    const DeviceMesh mesh = world.dist.init_device_mesh("ahbm", {2, 2, 2}, {"pp", "dp", "tp"});
    const DeviceMesh tp = mesh["tp"];
    CHECK(tp.ndim() == 1);
    CHECK(tp.mesh() == mesh.get_group("tp").ranks());
    const DeviceMesh outer = mesh[std::vector<std::string>{"pp", "tp"}];
    CHECK(outer.shape() == std::vector<int>{2, 2});
    const int dp = rank / 2 % 2 * 2;
    CHECK(outer.mesh() == std::vector<int>{dp, dp + 1, dp + 4, dp + 5});
    CHECK(outer.get_group("pp") == mesh.get_group("pp"));
    CHECK(outer.get_coordinate() == std::vector<int>{rank / 4, rank % 2});
  });
}

TEST_CASE("ranks beyond the mesh are not in it", "[distributed][mesh]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const DeviceMesh mesh = world.dist.init_device_mesh("ahbm", {2});
    CHECK(mesh.get_coordinate().empty() == (rank == 2));
    if (rank == 2) {
      CHECK_THAT(LocalWorld::refusal([&] { mesh.get_group(0); }),
                 test::Says("KB-C020", "get_group", "not in the mesh"));
    }
  });
}

TEST_CASE("dimensions of a mesh are flattened to one, with a group of its own",
          "[distributed][mesh]") {
  LocalWorld world(8);
  world.spawn([&](int rank) {
    const DeviceMesh mesh = world.dist.init_device_mesh("ahbm", {2, -1, 2}, {"pp", "dp", "tp"});
    CHECK(mesh.shape() == std::vector<int>{2, 2, 2});
    const DeviceMesh flat = mesh[{"dp", "tp"}]._flatten();
    const int first = rank / 4 * 4;
    const std::vector<int> half{first, first + 1, first + 2, first + 3};
    CHECK(flat.mesh_dim_names() == std::vector<std::string>{"dp_tp"});
    CHECK(flat.shape() == std::vector<int>{4});
    CHECK(flat.mesh() == half);
    CHECK(flat.get_group().ranks() == half);
    CHECK(flat.get_local_rank() == rank % 4);
    CHECK(flat.get_coordinate() == std::vector<int>{rank % 4});
    // Dimensions that are not neighbours: ranks 0, 1, 4, 5 and 2, 3, 6, 7.
    const DeviceMesh outer = mesh[{"pp", "tp"}]._flatten("loss");
    const int dp = rank / 2 % 2 * 2;
    CHECK(outer.get_group("loss").ranks() == std::vector<int>{dp, dp + 1, dp + 4, dp + 5});
    CHECK(outer.get_local_rank() == rank / 4 * 2 + rank % 2);
    CHECK(mesh["loss"].get_group() == outer.get_group());
    CHECK(mesh[{"pp", "tp"}]._flatten("loss").get_group() == outer.get_group());
    Tensor x = world.tensor({static_cast<float>(rank)});
    world.dist.all_reduce(x, ReduceOp::sum, {.group = mesh["loss"].get_group()});
    CHECK(x.item() == static_cast<float>(4 * dp + 10));
    CHECK(mesh["tp"].get_group() == mesh.get_group("tp"));
  });
}

TEST_CASE("the rest of a mesh is what the other sizes leave of the world", "[distributed][mesh]") {
  LocalWorld world(6);
  CHECK(world.dist.init_device_mesh("ahbm", {-1, 3}).shape() == std::vector<int>{2, 3});
  const auto refusal = [&](const std::vector<int>& shape, const std::vector<std::string>& names) {
    return LocalWorld::refusal([&] { world.dist.init_device_mesh("ahbm", shape, names); });
  };
  CHECK(refusal({-1, 4}, {"dp", "tp"}) ==
        "[KB-C020] Invalid parallel dims: dp(-1) * tp(4) != WORLD_SIZE(6)");
  CHECK(refusal({-1, -1}, {}) ==
        "[KB-C020] Invalid parallel dims: dim0(-1) * dim1(-1) != WORLD_SIZE(6)");
}

TEST_CASE("what wrong meshes are told", "[distributed][mesh]") {
  LocalWorld world(4);
  const auto refusal = [&](const std::vector<int>& shape, const std::vector<std::string>& names) {
    return LocalWorld::refusal([&] { world.dist.init_device_mesh("ahbm", shape, names); });
  };
  CHECK(refusal({2, 3}, {}) ==
        "[KB-C020] Mesh should not be bigger than default world size 4, but found mesh_shape [2, "
        "3]!");
  CHECK(refusal({2, 2}, {"a", "a"}).starts_with("[KB-C020] Each mesh_dim_name must be unique."));
  CHECK(refusal({2, 2}, {"a"})
            .starts_with("[KB-C020] mesh_shape and mesh_dim_names should have same length!"));
  CHECK(refusal({2, 0}, {}).starts_with("[KB-C020] init_device_mesh: mesh_shape [2, 0]"));
  const DeviceMesh mesh = world.dist.init_device_mesh("ahbm", {2, 2}, {"dp", "tp"});
  CHECK(LocalWorld::refusal([&] { mesh["pp"]; }) ==
        "[KB-C020] Invalid mesh_dim_name 'pp' specified. Valid mesh_dim_names are [dp, tp].");
  CHECK(LocalWorld::refusal([&] {
          mesh.get_group();
        }).starts_with("[KB-C020] Found the DeviceMesh have 2 dimensions."));
  CHECK(LocalWorld::refusal([&] { mesh["dp"]._flatten("tp"); }) ==
        "[KB-C020] tp already exists for submesh of the DeviceMesh. The mesh_dim_names of submesh "
        "and flattened mesh are [dp, tp]. Please specify another valid mesh_dim_name.");
  CHECK(mesh["tp"]._flatten().get_group() == mesh.get_group("tp"));  // it is one already
  CHECK(LocalWorld::refusal([&] { world.dist.init_device_mesh("ahbm", {4})._flatten("x"); }) ==
        "[KB-C020] Cannot flatten a DeviceMesh without mesh_dim_names!");
  CHECK_THAT(LocalWorld::refusal([&] { mesh.size(2); }),
             test::Says("KB-C020", "dimension 2", "out of range", "are 2"));
}

}  // namespace
}  // namespace kernbench::test::device_mesh_test
