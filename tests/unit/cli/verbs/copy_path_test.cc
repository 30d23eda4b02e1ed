#include "cli/verbs/copy_path.h"

#include <gtest/gtest.h>

namespace muster::cli::copy_path_test {
namespace {

TEST(CopyPath, NamesAJobARankAndAPath) {
  const CopyPath path = parse_copy_path("k7:3:/tmp/a:b").value();
  EXPECT_TRUE(path.is_remote());
  EXPECT_EQ(path.job, "k7");
  EXPECT_EQ(path.rank, 3);
  EXPECT_EQ(path.path, "/tmp/a:b");
  EXPECT_EQ(parse_copy_path("k7[4]::out").value().rank, std::nullopt);
  EXPECT_EQ(parse_copy_path("k7[4]::out").value().job, "k7[4]");
}

TEST(CopyPath, IsHereWithoutAJob) {
  for (const char* const word : {"out", "/tmp/k7:3:x", "./k7:3:x", "a/b:0:c", ":0:x"}) {
    const auto path = parse_copy_path(word);
    ASSERT_TRUE(path.ok()) << word;
    EXPECT_FALSE(path->is_remote()) << word;
    EXPECT_EQ(path->path, word);
  }
}

TEST(CopyPath, SaysWhichPartIsWrong) {
  EXPECT_EQ(parse_copy_path("").status().message(), "a path is empty");
  EXPECT_EQ(parse_copy_path("k7:out").status().message(),
            "'k7:out' has no rank: write JOB:RANK:PATH, or ./k7:out for a file here");
  EXPECT_EQ(parse_copy_path("k7:x:out").status().message(), "'x' is not the number of a rank");
  EXPECT_EQ(parse_copy_path("k7:-1:out").status().message(), "'-1' is not the number of a rank");
  EXPECT_EQ(parse_copy_path("k7:3:").status().message(), "'k7:3:' has no path behind its rank");
}

TEST(CopyPath, OneOfTwoNamesAJob) {
  EXPECT_TRUE(parse_copy("k7:0:a", "b").ok());
  EXPECT_FALSE(parse_copy("k7:0:a", "b")->is_upload());
  EXPECT_TRUE(parse_copy("a", "k7:0:b")->is_upload());
  EXPECT_FALSE(parse_copy("a", "b").ok());
  EXPECT_FALSE(parse_copy("k7:0:a", "k8:0:b").ok());
}

TEST(CopyPath, HasABaseName) {
  EXPECT_EQ(base_name("/a/b/"), "b");
  EXPECT_EQ(base_name("b"), "b");
  EXPECT_EQ(base_name("/"), "");
  EXPECT_EQ(base_name("a/.."), "");
}

TEST(CopyHeader, IsTakenFromTheBytes) {
  std::string bytes = "FILE 12 644\nhello";
  const auto header = take_copy_header(bytes);
  ASSERT_TRUE(header.ok() && header->has_value());
  EXPECT_FALSE((*header)->is_tree);
  EXPECT_EQ((*header)->size, 12);
  EXPECT_EQ((*header)->mode, 0644U);
  EXPECT_EQ(bytes, "hello");
  bytes = "TREE\nx";
  EXPECT_TRUE((*take_copy_header(bytes))->is_tree);
  EXPECT_EQ(bytes, "x");
}

TEST(CopyHeader, MayComeInParts) {
  std::string bytes = "FILE 1";
  const auto header = take_copy_header(bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_FALSE(header->has_value());
  EXPECT_EQ(bytes, "FILE 1");
}

TEST(CopyHeader, RefusesOtherBytes) {
  for (const char* const text :
       {"hello\n", "FILE\n", "FILE x 644\n", "FILE 1 999\n", "FILE -1 644\n", "FILE 1 100644\n",
        "a line that is much longer than any header of a copy can ever be, without an end"}) {
    std::string bytes = text;
    EXPECT_FALSE(take_copy_header(bytes).ok()) << text;
  }
}

}  // namespace
}  // namespace muster::cli::copy_path_test
