"""Names of one function meet whatever the release, the compiler and the tool made of them, and are never guessed."""

from importlib.resources import files

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rqps.engines import ENGINES
from rqps.profile.components import OTHER, Patterns, claim, component_of, components, renames
from rqps.profile.costs import frame_name
from rqps.profile.names import readable

# As nm, perf and callgrind write them.
NOISE = [
    ("do_command(THD*)", "do_command"),
    ("do_command", "do_command"),
    (
        "row_sel_store_mysql_rec(unsigned char*, row_prebuilt_t*, unsigned char const*) [clone .constprop.0]",
        "row_sel_store_mysql_rec",
    ),
    ("rec_get_offsets_func.isra.0.part.3", "rec_get_offsets_func"),
    ("lock_rec_lock.cold", "lock_rec_lock"),
    ("row_ins_step.lto_priv.0", "row_ins_step"),
    ("memcpy@@GLIBC_2.14", "memcpy"),
    ("recv@plt", "recv"),
    ("evaluate_join_record(JOIN*, st_join_table*)'2", "evaluate_join_record"),
    ("RefIterator<false>::Read()", "RefIterator::Read"),
    (
        "PolicyMutex<TTASEventMutex<GenericPolicy> >::enter(unsigned int, unsigned int, char const*)",
        "PolicyMutex::enter",
    ),
    (
        "std::vector<std::pair<int, char>, Malloc_allocator<int> >::operator[](unsigned long)",
        "std::vector::operator[]",
    ),
    ("bool operator< <int>(std::vector<int> const&, std::vector<int> const&)", "operator<"),
    ("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)", "std::operator<<"),
    (
        "void std::__introsort_loop<int*, long, bool (*)(int, int)>(int*, int*, long, bool (*)(int, int))",
        "std::__introsort_loop",
    ),
    ("std::enable_if<(3>2), int>::type foo<int>(int)", "foo"),
    ("std::__cxx11::basic_string<char>::_M_append(char const*, unsigned long)", "std::basic_string::_M_append"),
    ("Item_func::val_str[abi:cxx11](String*)", "Item_func::val_str"),
    ("(anonymous namespace)::Buffer::add(char const*) const", "Buffer::add"),
    ("bool (anonymous namespace)::is_ok<int>((anonymous namespace)::Kind)", "is_ok"),
    (
        "dd::cache::Shared_dictionary_cache::get(THD*)::{lambda(int, char)#2}::operator()(int, char) const",
        "dd::cache::Shared_dictionary_cache::get::{lambda#2}::operator()",
    ),
    ("operator new(unsigned long)", "operator new"),
    ("operator delete[](void*)", "operator delete[]"),
    ("Lazy::operator unsigned long() const", "Lazy::operator unsigned long"),
    ("Item::operator bool() const", "Item::operator bool"),
    ("non-virtual thunk to ha_innopart::index_read(unsigned char*)", "ha_innopart::index_read"),
    ("virtual thunk to std::ostream::~ostream()", "std::ostream::~ostream"),
    ("Detached_thread<void (*)()>::operator()<void (*)()>(void (*&&)())", "Detached_thread::operator()"),
    ("Cursor::operator->() const", "Cursor::operator->"),
    ("Key::operator<=>(Key const&) const", "Key::operator<=>"),
    ("entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64_after_hwframe"),
    ("[unknown]", "[unknown]"),
    ("[vdso]", "[vdso]"),
    ("foo(int, unclosed<", "foo(int, unclosed<"),
    ("a)b", "a)b"),
    ("", ""),
]


@pytest.mark.parametrize(("raw", "wanted"), NOISE)
def test_noise_is_folded_and_nothing_else(raw: str, wanted: str) -> None:
    assert readable(raw) == wanted


@given(st.text(alphabet="abo_:<>(){}[]&*~ ,;#'.@012operatr", max_size=40))
def test_whatever_the_name_something_readable_remains(raw: str) -> None:
    name = readable(raw)
    assert bool(name) == bool(raw)
    assert len(name) <= len(raw)


@given(
    st.from_regex(r"[a-z_][a-z0-9_]{0,20}(::[a-z_]{1,9}){0,3}", fullmatch=True),
    st.sampled_from(["", "(int)", "<a>(b)"]),
)
def test_arguments_make_no_other_function(name: str, tail: str) -> None:
    assert readable(name + tail) == readable(name) == name


@pytest.mark.parametrize(
    ("older", "today"),
    [
        ("mysql_parse(THD*, char*, unsigned int, Parser_state*)", "dispatch_sql_command(THD*, Parser_state*, bool)"),
        (
            "row_search_for_mysql(unsigned char*, unsigned long, row_prebuilt_struct*, unsigned long, unsigned long)",
            "row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*, unsigned long, unsigned long)",
        ),
        ("st_select_lex_unit::cleanup()", "Query_expression::cleanup(THD*, bool)"),
        ("select_send::send_data(List<Item>&)", "Query_result_send::send_data(THD*, mem_root_deque<Item*> const&)"),
        (
            "dispatch_command(enum_server_command, THD*, char*, unsigned int)",
            "dispatch_command(THD*, COM_DATA const*, enum_server_command)",
        ),
        (
            "btr_cur_search_to_nth_level(dict_index_struct*, unsigned long)",
            "btr_cur_search_to_nth_level(dict_index_t*)",
        ),
    ],
)
def test_names_of_old_and_new_releases_meet(older: str, today: str) -> None:
    assert frame_name("mysql", older, False) == frame_name("mysql", today, False)


def test_the_kernel_has_its_own_names() -> None:
    assert frame_name("mysql", "mutex_lock", True) == "mutex_lock_[k]"
    assert claim("mysql", "mutex_lock_[k]") != claim("mysql", "mutex_lock")


@pytest.mark.parametrize(
    ("stack", "component"),
    [
        (["connection", "row_search_mvcc", "row_sel_store_mysql_rec", "memcpy"], "InnoDB rows and versions"),
        (["connection", "my_sql_parser_parse", "malloc", "memset"], "allocator"),
        (["connection", "net_write_packet", "do_syscall_64_[k]", "tcp_sendmsg_[k]", "memcpy_[k]"], "kernel: network"),
        (["connection", "net_write_packet", "do_syscall_64_[k]"], "kernel: system calls"),
        (
            ["connection", "row_search_mvcc", "asm_sysvec_apic_timer_interrupt_[k]", "read_tsc_[k]"],
            "kernel: interrupts",
        ),
        (["connection", "row_search_mvcc", "read_tsc_[k]"], "kernel: other"),
        (["connection", "row_search_mvcc", "nobody_knows_this"], "InnoDB rows and versions"),
        (["connection", "memcpy"], "libraries"),
        (["client_thread", "rocksdb::DBImpl::GetImpl", "pthread_mutex_lock"], "mutexes of the C library"),
        (["client_thread", "rocksdb::ForwardRangeDelIterator::ForwardRangeDelIterator"], "RocksDB iterators"),
        (["client_thread", "rocksdb::MultiGetContext::Range::Iterator::Iterator"], "RocksDB database"),
        (["PostgresMain", "ExecScan", "heap_getnextslot", "memcpy"], "PostgreSQL heap access"),
        (["PostgresMain", "ExecModifyTable", "heap_update", "XLogInsert", "pg_comp_crc32c_sse42"], "PostgreSQL WAL"),
        (["PostgresMain", "index_getnext_tid", "ReadBufferExtended", "LWLockAcquire"], "PostgreSQL locks"),
        (["PostgresMain", "nobody_knows_this"], "PostgreSQL protocol"),
        (["PostgresMain", "internal_flush", "do_syscall_64_[k]", "unix_stream_sendmsg_[k]"], "kernel: network"),
        (["nobody_knows_this"], OTHER),
        ([], OTHER),
    ],
)
def test_a_stack_belongs_to_its_nearest_component(stack: list[str], component: str) -> None:
    engines = {"client_thread": "rocksdb", "PostgresMain": "postgres"}
    assert component_of(engines.get("".join(stack[:1]), "mysql"), stack) == component


def test_the_pattern_with_most_letters_wins() -> None:
    result = Patterns([("row_*", "rows"), ("row_purge*", "purge"), ("*_v1", "schema"), ("row_x", "exact")])
    names = {"row_sel": "rows", "row_purge_step": "purge", "row_v1": "rows", "row_x": "exact", "column": None}
    assert {name: result.find(name) for name in names} == names


def test_a_star_in_the_middle_stands_for_anything() -> None:
    result = Patterns([("Item*::fix_fields", "resolver"), ("*Iterator*::Read", "executor")])
    assert result.find("Item_func::fix_fields") == "resolver"
    assert result.find("Item_func::fix_fields_again") is None
    assert result.find("RefIterator::Read") == "executor"
    assert result.find("Iterator::ReadAgain") is None


def test_the_tables_are_sound() -> None:
    known = [component for engine in ENGINES for component in components(engine)]
    names = {component.name for component in known}
    assert len({(component.name, component.colour, component.layer) for component in known}) == len(names)
    assert OTHER not in names
    left_out = {*renames("mysql").starts, *renames("mysql").layers}
    assert not left_out & {*renames("mysql").new_name, *renames("mysql").new_name.values()}
    for component in components("mysql"):
        assert component.server or component.library or component.kernel, component.name


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pattern_belongs_to_one_component(engine: str) -> None:
    for of_kernel in (False, True):
        for last_resort in (False, True):
            patterns = [
                pattern
                for component in components(engine)
                if component.last_resort == last_resort
                for pattern in (component.kernel if of_kernel else (*component.server, *component.library))
            ]
            assert sorted(patterns) == sorted(set(patterns))


def test_an_older_name_has_one_name_today_which_is_no_older_one() -> None:
    table = yaml.safe_load(files("rqps.engines.mysql").joinpath("renames.yaml").read_text())
    older = [row["before"].replace("*", word) for row in table["alike"] for word in row["words"]]
    for kind, today in (("functions", renames("mysql").new_name), ("classes", renames("mysql").new_class)):
        older += [name for before in table[kind].values() for name in before]
        assert not today.keys() & set(today.values())
    assert sorted(older) == sorted({*renames("mysql").new_name, *renames("mysql").new_class})


@pytest.mark.parametrize(
    "role", ["connection", "page cleaner", "log writer", "purge", "unknown", "all", "(12 minor)"]
)
def test_what_a_thread_does_is_no_function(role: str) -> None:
    assert claim("mysql", role) is None
    assert claim("mysql", role, last_resort=True) is None
