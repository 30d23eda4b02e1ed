#include "base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::base::yaml_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// {key@line:column=value, …}, [item, …], 'scalar', ~
std::string show(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "~";
    case YamlNode::Kind::kScalar:
      return "'" + node.text + "'";
    default:
      break;
  }
  std::string text;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) text += ", ";
    if (node.kind == YamlNode::Kind::kMap) {
      text += fmt::format("{}@{}:{}=", node.keys[i].text, node.keys[i].line, node.keys[i].column);
    }
    text += show(node.items[i]);
  }
  return node.kind == YamlNode::Kind::kMap ? "{" + text + "}" : "[" + text + "]";
}

std::string parse(std::string_view text) {
  const auto node = parse_yaml(text, "f.yaml");
  EXPECT_TRUE(node.ok()) << node.status();
  return node.ok() ? show(*node) : "";
}

TEST(Yaml, TreesKnowTheirPlaces) {
  EXPECT_EQ(parse("a: 1\nb:\n  c: 'x y'\n  d: [p, \"q\"]\n"), "{a@1:1='1', b@2:1={c@3:3='x y', d@4:3=['p', 'q']}}");
  const auto node = parse_yaml("a:\n   value\n", "f.yaml");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->items[0].line, 2);
  EXPECT_EQ(node->items[0].column, 4);
}

TEST(Yaml, NothingAndNull) {
  EXPECT_EQ(parse(""), "~");
  EXPECT_EQ(parse("# only a comment\n"), "~");
  EXPECT_EQ(parse("---\n"), "~");
  EXPECT_EQ(parse("a:\nb: ~\nc: null\nd: ''\n"), "{a@1:1=~, b@2:1=~, c@3:1=~, d@4:1=''}");
  EXPECT_EQ(parse("{}"), "{}");
}

TEST(Yaml, MistakesNameFileLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"a: 1\na: 2\n", "f.yaml:2:1: the key 'a' is given twice, first in line 1"},
      {"a: &x 1\nb: *x\n", "f.yaml:2:4: an alias"},
      {"a: *x\n", "f.yaml:1:4: "},
      {"? [a]\n: 1\n", "f.yaml:1:3: a key must be a word"},
      {"? ~\n: 1\n", "a key is missing"},
      {"a: [1\nb: 2\n", "f.yaml:"},
      {"a: b: c\n", "f.yaml:1:"},
      {"a:\n\t- 1\n", "f.yaml:"},
      {"a: 1\n---\nb: 2\n", "f.yaml: holds several documents"},
      {"%YAML 7.1\n---\n%\x01", "f.yaml:"},
  };
  for (const auto& [text, expected] : table) {
    const auto node = parse_yaml(text, "f.yaml");
    ASSERT_FALSE(node.ok()) << text << " -> " << show(*node);
    EXPECT_THAT(node.status().message(), HasSubstr(expected)) << text;
    EXPECT_THAT(node.status().message(), StartsWith("f.yaml:"));
    EXPECT_EQ(node.status().message().find('\n'), std::string::npos) << node.status();
  }
}

TEST(Yaml, DepthIsBounded) {
  EXPECT_TRUE(parse_yaml(std::string(kMaxYamlDepth, '[') + std::string(kMaxYamlDepth, ']'), "f").ok());
  const auto deep = parse_yaml(std::string(200, '[') + std::string(200, ']'), "f");
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(deep.status().message(), HasSubstr("more than 16 levels of lists and maps"));
  EXPECT_FALSE(parse_yaml(std::string(100'000, '['), "f").ok());
}

}  // namespace
}  // namespace muster::base::yaml_test
