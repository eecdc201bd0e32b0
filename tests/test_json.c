/* The JSON writer: commas, nesting, escapes, bytes that are not UTF-8. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/json.h"

static char *text;
static size_t length;

static ldri_json begin(void)
{
    ldri_json j = {.file = open_memstream(&text, &length)};
    assert_non_null(j.file);
    return j;
}

static void assert_written(ldri_json *j, const char *expected)
{
    assert_int_equal(fclose(j->file), 0);
    assert_string_equal(text, expected);
    free(text);
    text = NULL;
}

static void commas_and_nesting(void **state)
{
    ldri_json j = begin();
    ldri_json_open(&j, NULL, '{');
    ldri_json_uint(&j, "a", 1);
    ldri_json_open(&j, "b", '[');
    ldri_json_open(&j, NULL, '{');
    ldri_json_close(&j);
    ldri_json_open(&j, NULL, '[');
    ldri_json_close(&j);
    ldri_json_bool(&j, NULL, 1);
    ldri_json_bool(&j, NULL, 0);
    ldri_json_close(&j);
    ldri_json_string(&j, "c", "x");
    ldri_json_close(&j);
    ldri_json_open(&j, NULL, '{');
    ldri_json_close(&j);
    assert_written(&j, "{\"a\":1,\"b\":[{},[],true,false],\"c\":\"x\"}\n{}\n");
}

static void numbers(void **state)
{
    ldri_json j = begin();
    ldri_json_open(&j, NULL, '[');
    ldri_json_uint(&j, NULL, UINT64_MAX);
    ldri_json_int(&j, NULL, INT64_MIN);
    ldri_json_real(&j, NULL, 0.5);
    ldri_json_real(&j, NULL, 1234567.25);
    ldri_json_real(&j, NULL, NAN);
    ldri_json_real(&j, NULL, INFINITY);
    ldri_json_close(&j);
    assert_written(&j, "[18446744073709551615,-9223372036854775808,0.5,1234567.25,null,null]\n");
}

static void escapes(void **state)
{
    ldri_json j = begin();
    ldri_json_open(&j, NULL, '[');
    ldri_json_string(&j, NULL, "a\"b\\c/d");
    ldri_json_string(&j, NULL, "tab\tline\nbell\x07 del\x7f");
    ldri_json_string(&j, NULL, "\xc2\x9b[31m");                         /* a C1 control, U+009B */
    ldri_json_string(&j, NULL, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"); /* well-formed */
    ldri_json_close(&j);
    assert_written(&j, "[\"a\\\"b\\\\c/d\",\"tab\\u0009line\\u000abell\\u0007 del\\u007f\","
                       "\"\\u009b[31m\",\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]\n");
}

static void bytes_that_are_not_utf8(void **state)
{
    ldri_json j = begin();
    ldri_json_open(&j, NULL, '[');
    ldri_json_string(&j, NULL, "caf\xe9.jpg");
    ldri_json_string(&j, NULL, "\x80\xff");
    ldri_json_string(&j, NULL, "\xc0\xaf");         /* overlong */
    ldri_json_string(&j, NULL, "\xed\xa0\x80");     /* a surrogate */
    ldri_json_string(&j, NULL, "\xf4\x90\x80\x80"); /* above U+10FFFF */
    ldri_json_string(&j, NULL, "\xe2\x82");         /* cut off by the end */
    ldri_json_close(&j);
    assert_written(&j, "[\"caf\\udce9.jpg\",\"\\udc80\\udcff\",\"\\udcc0\\udcaf\","
                       "\"\\udced\\udca0\\udc80\",\"\\udcf4\\udc90\\udc80\\udc80\","
                       "\"\\udce2\\udc82\"]\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_and_nesting),
        cmocka_unit_test(numbers),
        cmocka_unit_test(escapes),
        cmocka_unit_test(bytes_that_are_not_utf8),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
