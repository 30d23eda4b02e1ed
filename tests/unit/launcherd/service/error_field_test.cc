#include "launcherd/service/error_field.h"

#include <gtest/gtest.h>

namespace muster::launcherd::error_field_test {
namespace {

TEST(ErrorField, IsTheNameBeforeTheSentence) {
  EXPECT_EQ(field_of("spec.size: 0 ranks"), "spec.size");
  EXPECT_EQ(field_of("spec.hosts[1].slots: must be a whole number"), "spec.hosts[1].slots");
  EXPECT_EQ(field_of("the name is empty"), "");
  EXPECT_EQ(field_of("n1 is unknown: give another"), "");
  EXPECT_EQ(field_of("7: x"), "");
  EXPECT_EQ(field_of(": x"), "");
}

}  // namespace
}  // namespace muster::launcherd::error_field_test
