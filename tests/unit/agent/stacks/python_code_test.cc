#include "agent/stacks/python_code.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/stacks/fake_python.h"

namespace muster::agent::python_code_test {
namespace {

using testing_support::FakePython;

constexpr std::uint32_t k3_13 = 0x030d00f0;
constexpr std::uint32_t k3_14 = 0x030e02f0;

TEST(PythonText, IsDecodedFromEveryWidth) {
  FakePython fake(k3_14);
  const auto text = [&](std::string_view characters, std::uint32_t width, std::size_t limit = 100) {
    const std::uint64_t address = fake.add_text(characters, width, false);
    PageCache pages(fake);
    return read_python_text(pages, fake.python(), address, limit).value_or("none");
  };
  EXPECT_EQ(text("gr\xf6\xdf"
                 "e",
                 1),
            "größe");
  EXPECT_EQ(text(std::string("\xa2\x95\x70\x65", 4), 2), "関数");
  EXPECT_EQ(text(std::string("\x00\xf6\x01\x00", 4), 4), "\xf0\x9f\x98\x80");
  EXPECT_EQ(text(std::string("\x00\xd8", 2), 2), "\xef\xbf\xbd");  // half a surrogate pair
  EXPECT_EQ(text("abcdef", 1, 3), "abc…");
  EXPECT_EQ(text("abcd", 3), "none");
}

// The header of an object is larger there. Only since 3.14, `interned` is a whole byte.
TEST(PythonText, IsDecodedInFreeThreadedBuilds) {
  for (const std::uint32_t version : {k3_13, k3_14}) {
    FakePython fake(version, true);
    EXPECT_EQ(fake.layout().object.ascii_data, 56u);
    const std::uint64_t ascii = fake.add_text("main");
    const std::uint64_t other = fake.add_text("gr\xf6n", 1, false);
    PageCache pages(fake);
    EXPECT_EQ(read_python_text(pages, fake.python(), ascii, 100), "main");
    EXPECT_EQ(read_python_text(pages, fake.python(), other, 100), "grön");
  }
}

}  // namespace
}  // namespace muster::agent::python_code_test
