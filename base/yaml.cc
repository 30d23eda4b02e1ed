#include "base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "base/strings.h"

namespace muster::base {
namespace {

// Builds the tree from the parser's events. After the first problem it ignores further events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view file_name) : file_name_(file_name) {}

  const Status& status() const { return status_; }
  YamlNode take() { return std::move(root_); }

  void fail(const YAML::Mark& mark, std::string_view problem) {
    if (status_.ok()) {
      status_ = base::invalid_argument("{}:{}:{}: {}", file_name_, mark.line + 1, mark.column + 1, problem);
    }
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, YamlNode::Kind::kNull, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "an alias (*name) is not supported: write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string& value) override {
    add(mark, YamlNode::Kind::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is not closed yet, and the key that waits for its value.
  struct Open {
    YamlNode node;
    std::optional<YamlNode::Key> key;
    std::map<std::string, int> lines;  // the line of each key so far
  };

  void add(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& text) {
    if (!status_.ok()) return;
    YamlNode node;
    node.kind = kind;
    node.text = text;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (!stack_.empty() && expects_key()) {
      read_key(mark, node);
    } else {
      put(std::move(node));
    }
  }

  bool expects_key() const { return stack_.back().node.kind == YamlNode::Kind::kMap && !stack_.back().key; }

  void read_key(const YAML::Mark& mark, const YamlNode& node) {
    Open& map = stack_.back();
    if (node.kind != YamlNode::Kind::kScalar) {
      fail(mark, "a key is missing");
      return;
    }
    const auto [earlier, is_new] = map.lines.try_emplace(node.text, node.line);
    if (!is_new) {
      fail(mark, fmt::format("the key '{}' is given twice, first in line {}", printable(node.text), earlier->second));
      return;
    }
    map.key = YamlNode::Key{node.text, node.line, node.column};
  }

  void open(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (!status_.ok()) return;
    if (stack_.size() >= kMaxYamlDepth) {
      fail(mark, fmt::format("more than {} levels of lists and maps", kMaxYamlDepth));
      return;
    }
    if (!stack_.empty() && expects_key()) {
      fail(mark, "a key must be a word");
      return;
    }
    Open fresh;
    fresh.node.kind = kind;
    fresh.node.line = mark.line + 1;
    fresh.node.column = mark.column + 1;
    stack_.push_back(std::move(fresh));
  }

  void close() {
    if (!status_.ok()) return;
    YamlNode done = std::move(stack_.back().node);
    stack_.pop_back();
    put(std::move(done));
  }

  void put(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& into = stack_.back();
    if (into.key) into.node.keys.push_back(*std::exchange(into.key, std::nullopt));
    into.node.items.push_back(std::move(node));
  }

  const std::string_view file_name_;
  Status status_;
  YamlNode root_;
  std::vector<Open> stack_;
};

}  // namespace

Result<YamlNode> parse_yaml(std::string_view content, std::string_view file_name) {
  TreeBuilder builder(file_name);
  try {
    std::istringstream input{std::string(content)};
    YAML::Parser parser(input);
    if (!parser.HandleNextDocument(builder)) return YamlNode{};
    MUSTER_RETURN_IF_ERROR(builder.status());
    TreeBuilder second(file_name);
    if (parser.HandleNextDocument(second)) {
      return base::invalid_argument("{}: holds several documents, divided by '---': one is expected", file_name);
    }
  } catch (const YAML::Exception& problem) {
    // The parser may fail after the builder has found a mistake. The builder keeps its first mistake.
    builder.fail(problem.mark, printable(problem.msg));
    return builder.status();
  }
  return builder.take();
}

}  // namespace muster::base
