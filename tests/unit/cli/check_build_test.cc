#include "cli/check_build.h"

#include <gtest/gtest.h>

namespace muster::cli::check_build_test {
namespace {

// horovodrun's words and places; scripts look for "[X] Gloo".
TEST(CheckBuild, HasHorovodrunsForm) {
  EXPECT_EQ(format_build({.pytorch = true, .gloo = true, .nccl_operations = true}, false),
            "Muster v" MUSTER_VERSION R"(:

Available Frameworks:
    [ ] TensorFlow
    [X] PyTorch
    [ ] MXNet

Available Controllers:
    [ ] MPI
    [X] Gloo

Available Tensor Operations:
    [X] NCCL
    [ ] DDL
    [ ] CCL
    [ ] MPI
    [ ] Gloo
)");
  EXPECT_EQ(format_build({}, true), "\n" + format_build({}, false));
}

}  // namespace
}  // namespace muster::cli::check_build_test
