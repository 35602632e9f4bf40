/* One dense layer for one instruction set; mlp.c includes this once for each, after defining
 *
 *   MLP_NAME(x)      name of this variant's x              MLP_TARGET        function attribute
 *   MLP_VEC, MLP_LANES                                     vector type, floats in it
 *   MLP_SET1 MLP_LOAD MLP_STORE MLP_FMA(a,b,c)=a*b+c MLP_DIV MLP_MIN MLP_MAX
 *   MLP_ROWS, MLP_COLUMNS                                  the tile: rows x vectors, all in registers
 *
 * A tile keeps MLP_ROWS x MLP_COLUMNS sums in registers while it walks down the inputs: per input one load
 * for each vector of weights, one broadcast for each row, and their product in fused multiply-adds. A row's
 * sum runs over the inputs in order, whatever the tile and the batch: a state's answer does not depend on its
 * neighbours.
 */

#define MLP_INLINE static inline __attribute__((always_inline)) MLP_TARGET

/* tanh as a quotient of polynomials (Eigen's coefficients), within 4e-7 of the real one. */
MLP_INLINE MLP_VEC MLP_NAME(tanh)(MLP_VEC x)
{
    x = MLP_MAX(MLP_MIN(x, MLP_SET1(7.90531110763549805f)), MLP_SET1(-7.90531110763549805f));
    const MLP_VEC z = MLP_MUL(x, x);
    MLP_VEC p = MLP_SET1(-2.76076847742355e-16f);
    p = MLP_FMA(p, z, MLP_SET1(2.00018790482477e-13f));
    p = MLP_FMA(p, z, MLP_SET1(-8.60467152213735e-11f));
    p = MLP_FMA(p, z, MLP_SET1(5.12229709037114e-08f));
    p = MLP_FMA(p, z, MLP_SET1(1.48572235717979e-05f));
    p = MLP_FMA(p, z, MLP_SET1(6.37261928875436e-04f));
    p = MLP_FMA(p, z, MLP_SET1(4.89352455891786e-03f));
    MLP_VEC q = MLP_SET1(1.19825839466702e-06f);
    q = MLP_FMA(q, z, MLP_SET1(1.18534705686654e-04f));
    q = MLP_FMA(q, z, MLP_SET1(2.26843463243900e-03f));
    q = MLP_FMA(q, z, MLP_SET1(4.89352518554385e-03f));
    return MLP_DIV(MLP_MUL(x, p), q);
}

/* `rows` and `columns` are constants at each call, so the loops unroll and the sums stay in registers. */
MLP_INLINE void MLP_NAME(tile)(const struct mlp_layer *layer, const float *in, float *out, size_t column,
    const int rows, const int columns)
{
    MLP_VEC sums[MLP_ROWS][MLP_COLUMNS];
    for (int c = 0; c < columns; c++) {
        MLP_VEC bias = MLP_LOAD(layer->bias + column + (size_t)c * MLP_LANES);
        for (int r = 0; r < rows; r++)
            sums[r][c] = bias;
    }
    const float *weights = layer->weights + column;
    for (size_t k = 0; k < layer->inputs; k++, weights += layer->outputs) {
        MLP_VEC w[MLP_COLUMNS];
        for (int c = 0; c < columns; c++)
            w[c] = MLP_LOAD(weights + c * MLP_LANES);
        for (int r = 0; r < rows; r++) {
            MLP_VEC x = MLP_SET1(in[(size_t)r * layer->inputs + k]);
            for (int c = 0; c < columns; c++)
                sums[r][c] = MLP_FMA(x, w[c], sums[r][c]);
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            MLP_VEC y = layer->is_last ? sums[r][c] : MLP_NAME(tanh)(sums[r][c]);
            MLP_STORE(out + (size_t)r * layer->outputs + column + (size_t)c * MLP_LANES, y);
        }
    }
}

/* in[n][inputs] -> out[n][outputs]; outputs is a multiple of MLP_LANES. */
MLP_TARGET static void MLP_NAME(layer)(const struct mlp_layer *layer, const float *in, float *out, size_t n)
{
    for (size_t column = 0; column < layer->outputs;) {
        const bool wide = layer->outputs - column >= MLP_COLUMNS * MLP_LANES;
        size_t row = 0;
        for (; row + MLP_ROWS <= n; row += MLP_ROWS) {
            const float *x = in + row * layer->inputs;
            float *y = out + row * layer->outputs;
            if (wide)
                MLP_NAME(tile)(layer, x, y, column, MLP_ROWS, MLP_COLUMNS);
            else
                MLP_NAME(tile)(layer, x, y, column, MLP_ROWS, 1);
        }
        for (; row < n; row++) {
            const float *x = in + row * layer->inputs;
            float *y = out + row * layer->outputs;
            if (wide)
                MLP_NAME(tile)(layer, x, y, column, 1, MLP_COLUMNS);
            else
                MLP_NAME(tile)(layer, x, y, column, 1, 1);
        }
        column += wide ? MLP_COLUMNS * MLP_LANES : MLP_LANES;
    }
}

#undef MLP_INLINE
#undef MLP_NAME
#undef MLP_TARGET
#undef MLP_VEC
#undef MLP_LANES
#undef MLP_SET1
#undef MLP_LOAD
#undef MLP_STORE
#undef MLP_MUL
#undef MLP_FMA
#undef MLP_DIV
#undef MLP_MIN
#undef MLP_MAX
#undef MLP_ROWS
#undef MLP_COLUMNS
