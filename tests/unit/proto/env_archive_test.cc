#include "proto/env_archive.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::proto::env_archive_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = EnvEntry::Kind;

std::string archive_of(const std::vector<std::pair<EnvEntry, std::string>>& entries) {
  std::string bytes(kEnvMagic);
  for (const auto& [entry, content] : entries) bytes += env_header(entry) + content;
  return bytes + env_header({.kind = Kind::kEnd});
}

struct Read {
  base::Status status;
  std::string id{};
  std::vector<std::string> entries{};
};

Read read(std::string_view bytes, std::size_t piece) {
  Read result;
  std::string content;
  auto reader = EnvReader::begin({.begin = [](const EnvEntry&) { return base::ok_status(); },
                                  .content =
                                      [&](std::string_view part) {
                                        content += part;
                                        return base::ok_status();
                                      },
                                  .end =
                                      [&](const EnvEntry& entry) {
                                        result.entries.push_back(static_cast<char>(entry.kind) + entry.path + "=" +
                                                                 std::exchange(content, ""));
                                        return base::ok_status();
                                      }});
  for (; !bytes.empty() && result.status.ok(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    result.status = reader->add(bytes.substr(0, piece));
  }
  if (!result.status.ok()) return result;
  const auto id = reader->finish();
  result.status = id.status();
  if (id.ok()) result.id = *id;
  return result;
}

std::string usual(std::int64_t mtime_ns = 5) {
  return archive_of({{{.kind = Kind::kPrefix, .size = 4}, "/env"},
                     {{.kind = Kind::kFolder, .mode = 0755, .path = "bin"}, ""},
                     {{.mode = 0644, .mtime_ns = mtime_ns, .size = 3, .path = "bin/a"}, "abc"},
                     {{.mode = 0644, .size = 0, .path = "bin/empty"}, ""},
                     {{.kind = Kind::kLink, .size = 1, .path = "link"}, "a"}});
}

TEST(EnvArchive, ArrivesInPiecesOfAnySize) {
  for (const std::size_t piece : {1UL, 2UL, 7UL, 1000UL}) {
    const Read result = read(usual(), piece);
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_THAT(result.entries, ElementsAre("p=/env", "dbin=", "fbin/a=abc", "fbin/empty=", "llink=a"));
    EXPECT_TRUE(is_env_id(result.id)) << result.id;
  }
}

TEST(EnvArchive, IdIsOfTheContentButNotOfTheTimes) {
  EXPECT_EQ(read(usual(5), 100).id, read(usual(6), 100).id);
  std::string other = usual();
  other[other.find("abc")] = 'x';
  EXPECT_NE(read(other, 100).id, read(usual(), 100).id);
}

TEST(EnvArchive, RefusesWhatIsCutOffOrFollows) {
  for (std::size_t size = 0; size < usual().size(); ++size) {
    EXPECT_EQ(read(usual().substr(0, size), 64).status.code(), base::Code::kDataLoss) << size;
  }
  EXPECT_THAT(read(usual() + "x", 64).status.message(), HasSubstr("bytes follow its end"));
}

TEST(EnvArchive, RefusesWrongEntries) {
  const auto refusal = [](const EnvEntry& entry) {
    return read(archive_of({{entry, "content"}}), 64).status.message();
  };
  EXPECT_THAT(refusal({.kind = static_cast<Kind>('x'), .path = "a"}), HasSubstr("unknown kind"));
  EXPECT_THAT(refusal({.size = 7}), HasSubstr("wrong path"));
  EXPECT_THAT(refusal({.kind = Kind::kPrefix, .size = 7, .path = "a"}), HasSubstr("wrong path"));
  EXPECT_THAT(refusal({.kind = Kind::kFolder, .size = 7, .path = "a"}), HasSubstr("wrong size"));
  EXPECT_THAT(refusal({.kind = Kind::kLink, .size = 0, .path = "a"}), HasSubstr("wrong size"));
  EXPECT_THAT(refusal({.kind = Kind::kLink, .size = 5000, .path = "a"}), HasSubstr("wrong size"));
  EXPECT_THAT(refusal({.size = 7, .path = std::string(5000, 'a')}), HasSubstr("too long"));
  EXPECT_THAT(read("another-form-1\n", 64).status.message(), HasSubstr("begins with other bytes"));
}

TEST(EnvArchive, EndsWithTheErrorOfAnEvent) {
  auto reader = EnvReader::begin({.begin = [](const EnvEntry&) { return base::resource_exhausted("full"); },
                                  .content = [](std::string_view) { return base::ok_status(); },
                                  .end = [](const EnvEntry&) { return base::ok_status(); }});
  EXPECT_EQ(reader->add(usual()).message(), "full");
}

}  // namespace
}  // namespace muster::proto::env_archive_test
