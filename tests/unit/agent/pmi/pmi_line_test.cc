#include "agent/pmi/pmi_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::pmi_line_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Names of the commands that are there; "!" and the reason at an error.
std::vector<std::string> names(PmiReader& reader) {
  std::vector<std::string> found;
  while (true) {
    const auto command = reader.next();
    if (!command.ok()) {
      found.push_back("!" + command.status().message());
      return found;
    }
    if (!command->has_value()) return found;
    found.push_back((*command)->name);
  }
}

TEST(PmiLine, AValueRunsToTheEndOfTheLine) {
  const auto put = parse_pmi_line("cmd=put kvsname=muster-a-0 key=-bcast-1-0 value=a b=c  d");
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->name, "put");
  EXPECT_THAT(put->words,
              ElementsAre(Pair("kvsname", "muster-a-0"), Pair("key", "-bcast-1-0"), Pair("value", "a b=c  d")));
  EXPECT_EQ(put->word("key"), "-bcast-1-0");
  EXPECT_EQ(put->word("nothing"), "");
}

TEST(PmiLine, BlanksAndBareWordsMeanNothing) {
  const auto init = parse_pmi_line(" cmd=init  pmi_version=1 bare  pmi_subversion=1 ");
  ASSERT_TRUE(init.ok()) << init.status();
  EXPECT_THAT(init->words, ElementsAre(Pair("pmi_version", "1"), Pair("pmi_subversion", "1")));
}

TEST(PmiLine, WhatBeginsWithNoCommandIsNone) {
  for (const char* line : {"", " ", "init", "key=a cmd=put", "cmd=", "cmd = init", "GET / HTTP/1.1", "endcmd"}) {
    EXPECT_FALSE(parse_pmi_line(line).ok()) << line;
  }
}

TEST(PmiReader, CutsCommandsFromWhateverComes) {
  PmiReader reader;
  reader.append("cmd=in");
  EXPECT_THAT(names(reader), IsEmpty());
  reader.append("it pmi_version=1\ncmd=get_maxes\ncmd=barr");
  EXPECT_THAT(names(reader), ElementsAre("init", "get_maxes"));
  reader.append("ier_in\n");
  EXPECT_THAT(names(reader), ElementsAre("barrier_in"));
}

TEST(PmiReader, ASpawnOfManyLinesIsOneCommand) {
  PmiReader reader;
  reader.append("mcmd=spawn\nnprocs=2\nexecname=./a\nend");
  EXPECT_THAT(names(reader), IsEmpty());
  reader.append("cmd\ncmd=finalize\n");
  EXPECT_THAT(names(reader), ElementsAre("spawn", "finalize"));
}

TEST(PmiReader, ALineWithoutEndIsRefusedBeforeItIsWhole) {
  PmiReader reader;
  reader.append("cmd=put value=" + std::string(kMaxPmiLine, 'x'));
  EXPECT_THAT(names(reader), ElementsAre(HasSubstr("!a line of more than 8192 bytes")));
  PmiReader whole;
  whole.append("cmd=put value=" + std::string(kMaxPmiLine, 'x') + "\n");
  EXPECT_THAT(names(whole), ElementsAre(HasSubstr("!a line of more than 8192 bytes")));
}

TEST(PmiReader, WhatIsNoPmiIsNamed) {
  PmiReader reader;
  reader.append("hello world\n");
  EXPECT_THAT(names(reader), ElementsAre("!'hello world' is not a PMI-1 command"));
}

}  // namespace
}  // namespace muster::agent::pmi_line_test
