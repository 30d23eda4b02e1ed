#include "agent/stacks/python_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/stacks/fake_python.h"

namespace muster::agent::python_layout_test {
namespace {

using testing::HasSubstr;
using testing_support::FakePython;

constexpr std::uint32_t k3_14 = 0x030e02f0;

TEST(PythonLayout, RefusesVersionsThatItDoesNotKnow) {
  EXPECT_THAT(FakePython(0x030f00f0).found().status().message(), HasSubstr("CPython 3.15.0 is not known"));
  EXPECT_THAT(FakePython(0x030d00a2).found().status().message(), HasSubstr("3.13.0 (a preview) is not known"));
  EXPECT_EQ(FakePython(0x02070000).found().status().code(), base::Code::kUnimplemented);
}

TEST(PythonLayout, RefusesOffsetsThatCannotBe) {
  FakePython fake(k3_14);
  ASSERT_TRUE(fake.found().ok());
  fake.store(fake.python().runtime + 8 * 32, std::uint64_t{1} << 40);
  PageCache pages(fake);
  EXPECT_FALSE(find_python(pages, *LoadedElf::open(pages, FakePython::kBase)).ok());
}

}  // namespace
}  // namespace muster::agent::python_layout_test
