"""house.names finds types of one name and files in the wrong namespace, and reads C++ as far as that needs."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cxx  # noqa: E402
import names  # noqa: E402


def plant(root, files):
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def types(text):
    return [name for name, _ in cxx.Reader(text).types]


READ = [
    ("class A {};", ["A"]),
    ("class A;", []),
    ("enum class A : std::uint8_t { kOne };", ["A"]),
    ("enum A : int;", []),
    ("typedef struct a { int b; } a;", ["a"]),
    ("struct alignas(64) [[nodiscard]] A final : public B<C{1}>, D {};", ["A"]),
    ("namespace a::b { struct C { struct D {}; struct E; }; struct C::E {}; }", ["a::b::C", "a::b::C::D", "a::b::C::E"]),
    ("namespace a { namespace b { struct C {}; } struct D {}; }", ["a::b::C", "a::D"]),
    ("namespace a::inline b { struct C {}; }  inline namespace d { struct E {}; }", ["a::C", "E"]),
    ("namespace a { namespace { struct B { struct C {}; }; } struct D {}; }", ["a::D"]),
    ("namespace [[deprecated]] a { struct B {}; }", ["a::B"]),
    ("namespace a = b; using namespace c; struct D {};", ["D"]),
    ("template <class T, typename = std::enable_if_t<(1 > 0)>> struct A {};", ["A"]),
    ("template <> struct std::hash<a::B> {};  template <class T> struct C<T*> {};", ["std::hash<a::B>", "C<T*>"]),
    ("template <class T> requires requires(T t) { t.a(); } struct A {};", ["A"]),
    ("template <class T> class A { template <class U> friend class A; friend struct B; };", ["A"]),
    ("int f(struct A* a) { struct B {}; if (a) { class C {}; } return 0; } struct D {};", ["D"]),
    ("struct A* f() { return nullptr; } struct B b{1}; struct C {};", ["C"]),
    ("struct A { A() : b_{1}, c_{'{'} { struct D {}; } int b_ = 1'000; char c_; int d_[2][a[b[0]]]; }; struct E {};",
     ["A", "E"]),
    ("auto f = [](auto a) { struct B {}; }; enum { kA }; struct C {};", ["C"]),
    ("// struct A {};\n/* struct B {}; */ auto c = \"struct D {\"; auto e = R\"x(struct F {)\" )x\"; struct G {};", ["G"]),
    ("#define A(b) struct b { \\\n  int c;\nstruct D {};\n#if 1 // struct E {\nstruct F {};\n#endif\n", ["D", "F"]),
    ('extern "C" { struct A {}; int main(int, char**) { struct B {}; } }  struct C {};', ["A", "C"]),
]


@pytest.mark.parametrize(("text", "found"), READ)
def test_reader_finds_types(text, found):
    assert types(text) == found


def test_reader_tells_lines_and_main():
    reader = cxx.Reader("\n\nnamespace a::inline b {\n\nstruct C {};\n}  // namespace a::b\nint main() {}\n")
    assert reader.namespaces == [("a::inline b", 3)]
    assert reader.types == [("a::C", 5)]
    assert reader.has_main


HOST_LINK = "namespace muster::launcherd::inline {folder} {{\nclass HostLink {{}};\n}}\n"


def test_two_types_of_one_name_are_found(tmp_path):
    plant(tmp_path, {"launcherd/agents/a.h": "namespace muster::launcherd {\nclass HostLink;\nclass HostLink {};\n}\n",
                     "launcherd/ssh/b.cc": "namespace muster::launcherd {\n\nstruct HostLink {};\n}\n"})
    (violation,) = names.check_types(names.load(tmp_path))
    assert violation.startswith("launcherd/ssh/b.cc:3: muster::launcherd::HostLink is defined in launcherd/agents/a.h:3 already")


def test_inline_namespaces_do_not_tell_types_apart(tmp_path):
    plant(tmp_path, {f"launcherd/{folder}/a.h": HOST_LINK.format(folder=folder) for folder in ("agents", "ssh")})
    (violation,) = names.check_types(names.load(tmp_path))
    assert "launcherd/ssh/a.h:2: muster::launcherd::HostLink is defined in launcherd/agents/a.h:2" in violation


def test_types_of_other_namespaces_or_of_one_file_are_none_of_it(tmp_path):
    plant(tmp_path, {"launcherd/a.cc": "namespace muster::launcherd { namespace { struct Local {}; } class Run; }\n",
                     "launcherd/b.cc": "namespace muster::launcherd { namespace { struct Local {}; } class Run {}; }\n",
                     "agent/a.cc": "namespace muster::agent { class Run {}; }\nstruct Options {};\n",
                     "agent/b.cc": "#if A\nnamespace muster::agent { struct Two {}; }\n#else\n"
                                   "namespace muster::agent { struct Two {}; }\n#endif\nstruct Options {};\n",
                     "tests/unit/agent/a_test.cc": "namespace muster::agent { class Run {}; }\n"})
    assert names.check_types(names.load(tmp_path)) == []


IN_PLACE = [
    ("base/a.h", "namespace muster::base {\n}"),
    ("agent/main.cc", "int main() {}"),
    ("agent/grpc_parts.cc", 'namespace grpc_core {\n}\nextern "C" {\nvoid f();\n}'),
    ("launcherd/run/a.h", "namespace muster::v1 {\nclass Job;\n}\nnamespace muster::launcherd::inline run {\n}"),
    ("launcherd/run/a.cc", "// x\nnamespace muster::launcherd::inline run {\nnamespace {\n}\n}"),
    ("agent/pmix/helper/a.cc", "namespace muster::agent::pmix {\n}"),
    ("agent/a/b/c.cc", "namespace muster::agent::inline a::inline b {\n}"),
    ("collectives/include/muster/muster.hpp", "namespace muster {\n}"),
]

OUT_OF_PLACE = [
    ("launcherd/run/a.h", "namespace muster::launcherd {\n}", "muster::launcherd, its folder's is muster::launcherd::inline run"),
    ("launcherd/run/a.h", "namespace muster::launcherd::run {\n}", "its folder's is muster::launcherd::inline run"),
    ("launcherd/run/a.cc", "namespace muster::launcherd::inline ssh {\n}", "its folder's is muster::launcherd::inline run"),
    ("base/a.cc", "namespace {\n}", "opens namespace none, its folder's is muster::base"),
    ("agent/gpus/helper.h", "namespace muster::agent::gpus {\n}", "its folder's is muster::agent::inline gpus"),
    ("collectives/device/a.h", "namespace muster::collectives::inline device {\n}", "its folder's is muster::collectives::device"),
]


@pytest.mark.parametrize(("path", "text"), IN_PLACE)
def test_namespaces_of_folders(tmp_path, path, text):
    plant(tmp_path, {path: f"{text}\n"})
    assert names.check_folders(names.load(tmp_path)) == []


@pytest.mark.parametrize(("path", "text", "problem"), OUT_OF_PLACE)
def test_files_in_another_namespace_are_found(tmp_path, path, text, problem):
    plant(tmp_path, {path: f"\n{text}\n"})
    (violation,) = names.check_folders(names.load(tmp_path))
    assert violation.startswith(f"{path}:") and problem in violation
