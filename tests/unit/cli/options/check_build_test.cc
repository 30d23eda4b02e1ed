#include "cli/options/check_build.h"

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

TEST(CheckBuild, ListsTheFrameworksThatMusterServes) {
  const std::string text = format_build(this_build(), false);
  const auto operations = text.find("Available Tensor Operations:");
  ASSERT_NE(operations, std::string::npos);
  EXPECT_NE(text.find("[X] Gloo", operations), std::string::npos) << text;
  EXPECT_LT(text.find("[X] Gloo"), operations) << text;
  for (const char* framework : {"[X] TensorFlow", "[X] PyTorch", "[X] MXNet"}) {
    EXPECT_NE(text.find(framework), std::string::npos) << framework;
  }
}

}  // namespace
}  // namespace muster::cli::check_build_test
