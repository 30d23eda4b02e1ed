#include "launcherd/bootstrap/agent_image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <cstring>

namespace muster::launcherd::agent_image_test {
namespace {

std::string head(unsigned machine, unsigned char elf_class = ELFCLASS64, unsigned char data = ELFDATA2LSB) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = elf_class;
  header.e_ident[EI_DATA] = data;
  header.e_machine = static_cast<Elf64_Half>(machine);
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

TEST(AgentImageTest, Machines) {
  EXPECT_EQ(elf_machine(head(EM_X86_64)), "x86_64");
  EXPECT_EQ(elf_machine(head(EM_AARCH64)), "aarch64");
  EXPECT_EQ(elf_machine(head(EM_S390)), "elf22");
  EXPECT_EQ(elf_machine(head(EM_386, ELFCLASS32)), "");
  EXPECT_EQ(elf_machine(head(EM_PPC64, ELFCLASS64, ELFDATA2MSB)), "");
  EXPECT_EQ(elf_machine("#!/bin/sh\n"), "");
  EXPECT_EQ(elf_machine(""), "");
  EXPECT_TRUE(is_same_machine("amd64", "x86_64"));
  EXPECT_TRUE(is_same_machine("arm64", "aarch64"));
  EXPECT_FALSE(is_same_machine("aarch64", "x86_64"));
}

TEST(AgentImageTest, OpensAProgramAndNothingElse) {
  const auto self = AgentImage::open("/proc/self/exe");
  ASSERT_TRUE(self.ok()) << self.status();
  utsname system{};
  ASSERT_EQ(::uname(&system), 0);
  EXPECT_TRUE(is_same_machine(self->machine(), system.machine));
  EXPECT_EQ(AgentImage::open("/etc/passwd").status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(AgentImage::open("/nowhere/agent").status().code(), base::Code::kNotFound);
  const auto content = self->load();
  ASSERT_TRUE(content.ok());
  EXPECT_EQ((*content)->sha256.size(), 64u);
  EXPECT_EQ(elf_machine((*content)->bytes), self->machine());
}

}  // namespace
}  // namespace muster::launcherd::agent_image_test
