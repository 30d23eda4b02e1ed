#include "agent/stacks/loaded_elf.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/stacks/fake_python.h"

namespace muster::agent::loaded_elf_test {
namespace {

using testing_support::FakePython;

constexpr std::uint32_t k3_14 = 0x030e02f0;

TEST(LoadedElf, IsNotFoundInOtherMemory) {
  FakePython fake(k3_14);
  fake.store(FakePython::kBase, 'x');
  PageCache pages(fake);
  EXPECT_FALSE(LoadedElf::open(pages, FakePython::kBase));
  EXPECT_FALSE(LoadedElf::open(pages, 0));
  EXPECT_FALSE(LoadedElf::open(pages, UINT64_MAX - 8));
}

TEST(LoadedElf, DoesNotFindOtherSymbols) {
  FakePython fake(k3_14);
  PageCache pages(fake);
  const auto elf = LoadedElf::open(pages, FakePython::kBase);
  ASSERT_TRUE(elf);
  EXPECT_TRUE(elf->find(pages, "Py_Version"));
  EXPECT_FALSE(elf->find(pages, "Py_Versio"));
  EXPECT_FALSE(elf->find(pages, "Py_Version2"));
}

}  // namespace
}  // namespace muster::agent::loaded_elf_test
